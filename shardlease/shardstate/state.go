package shardstate

import "fmt"

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
