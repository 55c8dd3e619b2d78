package lease

import (
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Observation decides when a candidate may take over. It holds the version received last, since
// when its spec is unchanged by the candidate's own clock, and how long it must stay so.
//
// Every other version restarts the wait, including a lower one (a restored etcd) and absence. A
// later version of the same object with an equal spec does not, see [Record.keepsSpecOf], but
// replaces the version to swap. Otherwise every write of metadata would delay a succession.
type Observation struct {
	own          time.Duration     // the candidate's D, for records without one
	trustForeign bool              // an empty record of another elector is released
	reclaim      func(Record) bool // its holder is known to have ended

	record Record
	since  clock.Reading
	seen   bool          // false before the first version, and when invalidated
	term   time.Duration // D of the last seen term; zero without one, and after a release
	wait   time.Duration
	unseen time.Duration // D of an unseen term that a deletion may have ended
}

// NewObservation returns an empty observation. own is the candidate's lease duration. reclaim
// reports whether the holder of a record is known to have ended.
func NewObservation(own time.Duration, trustForeignRelease bool, reclaim func(Record) bool) Observation {
	return Observation{own: own, trustForeign: trustForeignRelease, reclaim: reclaim}
}

// minForeignWait is the least extra wait for a record of another elector.
const minForeignWait = 5 * time.Second

// Observe records a version that arrived at local time now.
func (s *Observation) Observe(r Record, now clock.Reading) {
	if s.seen && s.record.SameVersion(r) {
		return
	}
	if !r.keepsSpecOf(s.record) {
		s.since = now
	}
	d := r.Duration()
	if d == 0 {
		d = s.own
	}
	switch {
	case !r.Exists():
		// A deletion is no release, because the holder may be alive and disconnected. The wait
		// restarts here, because unseen renewals may have preceded the deletion, but without a seen
		// holder there is no wait.
		s.wait = max(s.wait, s.term, s.unseen)
	case s.reclaim(r): // its holder has ended, but unseen ones may have followed
		s.term, s.wait = d, 0
	case r.Released(), r.Holder() == "" && s.trustForeign && !r.Emptied():
		s.term, s.wait = 0, 0
	case r.Holder() == "":
		// Emptied without the mark that work had ended. client-go's elector empties it first.
		s.term = max(s.term, s.own, d)
		s.wait = s.term
	default:
		if r.SameTerm(s.record) { // the holder may not know of a shortened duration
			d = max(s.term, d)
		}
		s.term, s.wait = d, d
		if !r.Ours() {
			// client-go's elector counts from the answer to a renewal, so after a slow answer it
			// outlives its record.
			s.wait += max(d/3, minForeignWait)
		}
	}
	s.record, s.seen, s.unseen = r, true, 0
}

// TimeToExpiry returns how long until the lease may be taken by a compare-and-swap on
// [Observation.Record], at once if not positive. ok is false before the first version. Only time
// that has surely passed counts.
func (s *Observation) TimeToExpiry(now clock.Reading) (wait time.Duration, ok bool) {
	return s.wait - now.SinceAtLeast(s.since), s.seen
}

// Invalidate forbids another swap on this version, after one that did not succeed. That swap may
// still be under way, so if the same or a lower version is read next, the wait restarts. A later
// version with an equal spec shows that the swap has failed because of metadata, and the wait
// continues.
//
// taken means that another candidate was faster. Then, and after a swap on a release with an
// unknown outcome, there may be an unseen holder, so absence read next is a deletion.
func (s *Observation) Invalidate(taken bool) {
	s.seen = false
	if taken || s.record.Exists() && s.wait == 0 {
		s.unseen = s.own
	}
}

// Record returns the last seen version.
func (s *Observation) Record() Record { return s.record }

// Since returns since when its spec is unchanged.
func (s *Observation) Since() clock.Reading { return s.since }
