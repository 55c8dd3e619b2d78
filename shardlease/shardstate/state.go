package shardstate

import (
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// State is the state of a shard. It follows from the versions of its lease, from when they were
// received, and from the time, all by the clock of the process that observes. D is the duration of
// the lease.
type State int

const (
	// Gone means no lease, of a shard that was never seen or was dead before its lease was deleted.
	Gone State = iota
	// Malformed is a lease that no shard of this ring writes ([Tracker.Problem] returns why). It is
	// never a member.
	Malformed
	// Orphaned is a lease that has been Dead for [Config].GCPeriod and may be deleted.
	Orphaned
	// Dead is a lease that its shard has released, or that the sharder has taken.
	Dead
	// Uncertain is a lease that was not renewed for 2D. Try to take it over, because only if that
	// succeeds is the shard dead.
	Uncertain
	// Expired is a lease that was not renewed for D, or was deleted other than by the sharder, or
	// emptied without the mark of a release. Its shard has stopped, or is about to, and may come
	// back, so nothing moves until 2D.
	Expired
	// Away is a lease that its shard has released and is expected to hold again (ReturnWithin of
	// shardlease.Config). Nothing moves until then.
	Away
	// Ready is a lease that its shard holds.
	Ready
)

// Member reports whether the shard takes part in the ring.
func (s State) Member() bool { return s >= Uncertain }

// String is the name of the constant.
func (s State) String() string {
	switch s {
	case Gone:
		return "Gone"
	case Malformed:
		return "Malformed"
	case Orphaned:
		return "Orphaned"
	case Dead:
		return "Dead"
	case Uncertain:
		return "Uncertain"
	case Expired:
		return "Expired"
	case Away:
		return "Away"
	case Ready:
		return "Ready"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// state is the state of the shard, without the GC period.
func (s *observation) state(now Reading) State {
	age := s.age(now)
	switch {
	case s.lease == nil && s.mourned:
		return Gone
	case s.lease == nil || s.problem() == nil && s.abandoned():
		if age < 2*s.patience {
			return Expired
		}
		return Uncertain
	case s.problem() != nil:
		return Malformed
	case s.away(now):
		return Away
	case s.givenUp():
		return Dead
	case age < s.patience:
		return Ready
	case age < 2*s.patience:
		return Expired
	}
	return Uncertain
}

// givenUp reports whether the epoch in the lease has ended: released with the mark of its term, or
// taken over by a sharder that has marked it.
func (s *observation) givenUp() bool {
	r := lease.RecordOf(s.lease)
	return r.Released() || r.Holder() == shardlease.Sharder && r.Ours()
}

// away reports whether the shard has released its lease and is expected back.
func (s *observation) away(now Reading) bool {
	if !lease.RecordOf(s.lease).Released() {
		return false
	}
	within := shardrecord.ReturnWithin(s.lease.Annotations[shardrecord.ReturnAnnotation], shardlease.MaxLeaseDuration)
	return within > 0 && s.age(now) < within
}

// abandoned reports whether the lease has neither a holder nor the mark of a release. Its shard has
// stopped after D.
func (s *observation) abandoned() bool {
	holder := lease.RecordOf(s.lease).Holder()
	return (holder == "" || holder == shardlease.Sharder) && !s.givenUp()
}

func (s *observation) problem() error { return s.problemOf(s.lease) }

// problemOf returns why a lease is malformed. A missing label is not a problem, because the shard
// restores it.
func (s *observation) problemOf(l *coordinationv1.Lease) error {
	if l == nil {
		return nil
	}
	var errs []error
	if ring, ok := l.Labels[shardlease.RingLabel]; ok && ring != s.ring {
		errs = append(errs, fmt.Errorf("label %s is %q, not %q", shardlease.RingLabel, ring, s.ring))
	}
	for _, problem := range shardrecord.IdentityProblems(l.Name) {
		errs = append(errs, fmt.Errorf("name: %s (got %q)", problem, l.Name))
	}
	if _, err := shardlease.EpochOf(l); err != nil {
		errs = append(errs, err)
	}
	r := lease.RecordOf(l)
	if r.Coordinated() {
		errs = append(errs, lease.ErrCoordinated)
	}
	switch r.Holder() {
	case "", shardlease.Sharder:
	case s.shard:
		if !r.Ours() {
			errs = append(errs,
				fmt.Errorf("annotation %s does not name the term in spec: not written by a shard",
					lease.TermAnnotation))
		}
		if d := r.Duration(); d < minLeaseDuration || d > shardlease.MaxLeaseDuration {
			errs = append(errs,
				fmt.Errorf("spec.leaseDurationSeconds must be from %v to %v (got %v)", minLeaseDuration,
					shardlease.MaxLeaseDuration, d))
		}
	default:
		errs = append(errs, fmt.Errorf("spec.holderIdentity must be the name of the Lease (got %q)", r.Holder()))
	}
	return errors.Join(errs...)
}

// EpochState is what is known about an epoch that an object's record names.
type EpochState int

const (
	// EpochActive means that a process may work in the epoch.
	EpochActive EpochState = iota
	// EpochEnded means that no process works in the epoch, or ever will.
	EpochEnded
	// EpochUnknown means that the epoch is newer than what was observed of the lease. Read the
	// lease consistently, after the object, and call [Tracker.ObserveRead]. If the state is
	// EpochUnknown right after that, no shard has ever had the epoch.
	EpochUnknown
	// EpochNeedsTakeover means that the lease has been missing for 2D. The sharder must create the
	// lease as its own ([Tracker.Takeover]) to prove that the epoch has ended.
	EpochNeedsTakeover
)

// String is the name of the constant.
func (v EpochState) String() string {
	switch v {
	case EpochActive:
		return "EpochActive"
	case EpochEnded:
		return "EpochEnded"
	case EpochUnknown:
		return "EpochUnknown"
	case EpochNeedsTakeover:
		return "EpochNeedsTakeover"
	}
	return fmt.Sprintf("EpochState(%d)", int(v))
}

// epochState returns the state of an epoch of the shard.
func (s *observation) epochState(e shardlease.Epoch, now Reading) EpochState {
	if s.lease != nil && s.lease.UID == e.LeaseUID {
		present, err := shardlease.EpochOf(s.lease)
		switch {
		case err != nil: // a user must repair it
			return EpochActive
		case present.Number < e.Number:
			return EpochUnknown
		case s.away(now) && present.Number == e.Number: // no work runs in it, but its objects must not move
			return EpochActive
		case present.Number > e.Number, s.givenUp(), s.abandoned() && s.age(now) >= 2*s.patience:
			return EpochEnded
		}
		return EpochActive
	}
	a, known := s.absent[e.LeaseUID]
	switch {
	case !known:
		return EpochUnknown
	case e.Number <= a.over:
		return EpochEnded
	case now.SinceAtLeast(a.since) < a.wait:
		return EpochActive
	case s.lease == nil:
		return EpochNeedsTakeover
	}
	return EpochEnded
}
