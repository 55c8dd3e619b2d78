package shardstate

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// minLeaseDuration is the shortest D of a shard: two renew intervals of a second, and a margin, in
// whole seconds.
const minLeaseDuration = 3 * time.Second

// observation is the sharder's view of the lease of one shard.
type observation struct {
	shard string
	ring  string
	own   time.Duration // the sharder's D, if the lease names none

	lease    *coordinationv1.Lease // the last seen version, or nil
	since    Reading               // since when the claim is unchanged
	patience time.Duration         // the D to wait for
	mourned  bool                  // there is no lease, and the shard was not a member before
	absent   map[types.UID]absence // deleted leases of this name
}

// absence is what is known about a deleted lease.
type absence struct {
	since Reading       // when the deletion was first seen
	wait  time.Duration // how long a term may last from then
	over  int64         // epochs up to this number, if not negative, had ended before
}

func newObservation(shard, ring string, own time.Duration, now Reading) *observation {
	return &observation{
		shard: shard, ring: ring, own: own, since: now, patience: own, mourned: true,
		absent: map[types.UID]absence{},
	}
}

// observe takes in a version of the lease that has arrived now, or nil if it does not exist. It
// reports whether an EpochState may have changed.
func (s *observation) observe(l *coordinationv1.Lease, now Reading) (changed bool) {
	before := s.mark()
	old := s.lease
	if l == nil && old == nil || l != nil && old != nil && sameClaim(old, l) {
		s.lease = l // metadata, or a later resourceVersion
		return false
	}
	if old != nil && (l == nil || l.UID != old.UID) {
		a := s.absence(now)
		if e, err := shardlease.EpochOf(old); err == nil {
			a.over = e.Number - 1
			if s.givenUp() {
				a.over = e.Number
			}
		}
		s.absent[old.UID] = a
	}
	s.mourned = l == nil && (!s.state(now).Member() || s.givenUp())
	s.patience = s.newPatience(l)
	s.lease, s.since = l, now
	return s.mark() != before
}

// absence begins now, for an unknown lease that may have been held.
func (s *observation) absence(now Reading) absence {
	return absence{now, 2 * max(s.patience, s.own), -1}
}

// newPatience returns the D of a version. A version that no process of this package has written may
// have ended a term with a longer D.
func (s *observation) newPatience(l *coordinationv1.Lease) time.Duration {
	r := lease.RecordOf(l)
	d := r.Duration()
	switch {
	case r.Holder() != s.shard || s.problemOf(l) != nil:
		return max(s.patience, s.own)
	case r.SameTerm(lease.RecordOf(s.lease)):
		return max(s.patience, d)
	}
	return d
}

// sameClaim reports whether two versions agree on who holds the lease.
func sameClaim(a, b *coordinationv1.Lease) bool {
	for _, key := range []string{
		shardrecord.EpochAnnotation, shardrecord.ReturnAnnotation, lease.TermAnnotation,
		lease.ReleasedAnnotation,
	} {
		if a.Annotations[key] != b.Annotations[key] {
			return false
		}
	}
	return a.UID == b.UID && a.Labels[shardlease.RingLabel] == b.Labels[shardlease.RingLabel] &&
		lease.SameSpec(&a.Spec, &b.Spec)
}

// mark is what an EpochState depends on, besides the time.
type mark struct {
	uid     types.UID
	number  int64
	exists  bool
	givenUp bool
}

func (s *observation) mark() mark {
	if s.lease == nil {
		return mark{}
	}
	e, err := shardlease.EpochOf(s.lease)
	if err != nil {
		e.Number = -1
	}
	return mark{s.lease.UID, e.Number, true, s.givenUp()}
}

// age is the time since the last change.
func (s *observation) age(now Reading) time.Duration { return now.SinceAtLeast(s.since) }

// observeAbsence records that a lease does not exist. The consistent read was sent after a read of
// an object that names the lease. No other lease ever has its UID.
func (s *observation) observeAbsence(uid types.UID, now Reading) {
	if s.lease != nil && s.lease.UID == uid {
		return
	}
	if _, known := s.absent[uid]; !known {
		s.absent[uid] = s.absence(now)
	}
}

// acquirable reports whether the sharder may take the lease over.
func (s *observation) acquirable(now Reading) bool {
	switch s.state(now) {
	case Uncertain:
		return true
	case Gone:
		return s.age(now) >= 2*s.patience
	case Malformed: // or its objects would never move; its holder has stopped
		ring, labelled := s.lease.Labels[shardlease.RingLabel]
		_, err := shardlease.EpochOf(s.lease)
		return err == nil && (!labelled || ring == s.ring) && !lease.RecordOf(s.lease).Coordinated() &&
			s.age(now) >= 2*s.patience
	}
	return false
}

// next returns the time until something changes without a change of the lease, or zero if nothing
// does. passed counts such changes since the last change of the lease.
func (s *observation) next(now Reading, collectAfter time.Duration) (soonest time.Duration, passed int) {
	at := func(since Reading, after time.Duration) {
		switch wait := after - now.SinceAtLeast(since); {
		case wait <= 0:
			passed++
		case soonest == 0 || wait < soonest:
			soonest = wait
		}
	}
	at(s.since, s.patience)
	at(s.since, 2*s.patience)
	if s.lease != nil && s.away(now) {
		at(s.since,
			shardrecord.ReturnWithin(s.lease.Annotations[shardrecord.ReturnAnnotation], shardlease.MaxLeaseDuration))
	}
	if s.lease != nil && s.givenUp() {
		at(s.since, collectAfter)
	}
	for _, a := range s.absent {
		at(a.since, a.wait)
	}
	return soonest, passed
}
