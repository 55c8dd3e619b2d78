package lease

import (
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Observation is what a candidate knows about a lease: the version that it received last, since when the
// spec has stood unchanged by the candidate's own clock, and for how long it has to.
//
// Every other version restarts the wait, also a lower one (a restored etcd) and absence. The exception
// is a later version of the same object with an equal spec, see [Record.keepsSpecOf]: it replaces the
// version to swap, and the wait goes on. Otherwise every write of metadata would put off a succession.
type Observation struct {
	own          time.Duration // the candidate's D, where the record does not say
	trustForeign bool          // take an empty record of another elector for released
	reclaim      func(Record) bool

	record Record
	since  clock.Reading
	seen   bool          // false before anything was seen, and when spent
	term   time.Duration // D of the term seen last; zero: there was none, or it was released
	wait   time.Duration
	unseen time.Duration // D of a term that may have begun, and ended by a deletion, since the last version
}

// NewSighting returns the sighting of a candidate that has seen nothing. own is its configured lease duration.
func NewObservation(own time.Duration, trustForeignRelease bool) Observation {
	return Observation{own: own, trustForeign: trustForeignRelease, reclaim: Variant{}.reclaim}
}

// minForeignWait is what a record of another elector has to stand for at least, beyond its duration.
const minForeignWait = 5 * time.Second

// Observe takes in a version that has arrived at the local time now.
func (s *Observation) Observe(r Record, now clock.Reading) {
	if s.seen && s.record.sameVersion(r) {
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
		// Deletion is not release: the holder may live, and be cut off. Whatever wait was due is due from here,
		// because renewals that we did not see may have come before the deletion. A candidate that never saw
		// a holder has nothing to wait for.
		s.wait = max(s.wait, s.term, s.unseen)
	case s.reclaim(r): // its holder has ended, but perhaps others came after it, whom we did not see
		s.term, s.wait = d, 0
	case r.Released(), r.Holder() == "" && s.trustForeign && !r.Emptied():
		s.term, s.wait = 0, 0
	case r.Holder() == "":
		// Emptied by somebody who did not mark that work had ended. client-go's elector empties it first.
		s.term = max(s.term, s.own, d)
		s.wait = s.term
	default:
		if r.SameTerm(s.record) { // a holder that shortened its duration may not have heard of it
			d = max(s.term, d)
		}
		s.term, s.wait = d, d
		if !r.Ours() {
			// client-go's elector counts its term from the answer to a renewal, and gives up between
			// renewals only: after a slow answer it outlives its record.
			s.wait += max(d/3, minForeignWait)
		}
	}
	s.record, s.seen, s.unseen = r, true, 0
}

// TimeToExpiry is after how long the lease may be taken by a compare-and-swap on [Observation.Record], at once if not positive; ok is false
// before anything was seen. Only time that has surely passed counts.
func (s *Observation) TimeToExpiry(now clock.Reading) (wait time.Duration, ok bool) {
	return s.wait - now.SinceAtLeast(s.since), s.seen
}

// Invalidate makes the version unfit for another swap, after one that did not succeed. The outcome may be
// unknown, and the swap still under way: so if the same version is read next, or a lower one, the wait
// restarts. A later version with an equal spec shows that the swap has failed for good, and on nothing
// but metadata: the wait goes on.
//
// taken says that the swap has failed because somebody else was faster. Then, and after a swap on a release whose outcome is
// unknown, there may be a holder that we have not seen: if the next thing to be seen is absence, that is a deletion.
func (s *Observation) Invalidate(taken bool) {
	s.seen = false
	if taken || s.record.Exists() && s.wait == 0 {
		s.unseen = s.own
	}
}

// Record is the version seen last.
func (s *Observation) Record() Record { return s.record }
