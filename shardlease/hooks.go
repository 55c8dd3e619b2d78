package shardlease

import "time"

// Hooks are functions that a [Lease] calls when something happens; each may be nil. They are called synchronously from the goroutine of
// Run, one at a time: one that blocks keeps it from renewing, and so costs the lease at the deadline. A loss is told to OnLost.
type Hooks struct {
	// OnHeld is told of a term before work is called.
	OnHeld func(Epoch)

	// OnReleased is told of a term after work has ended, and after the attempt to release the lease.
	OnReleased func(Epoch)

	// OnWaiting is told who holds the lease, for each holder once, when Run has to wait for it to be released or to expire.
	OnWaiting func(Standing)

	// OnRenewal is told how an attempt to renew ended, and how long its requests took. err is nil if the deadline has moved.
	OnRenewal func(latency time.Duration, err error)
}

// Standing is who holds the lease of a shard that waits for it.
type Standing struct {
	// Holder is the shard's own identity (another process, or an earlier one), or [Sharder], or somebody else's.
	Holder string
	// Incarnation of the holder, empty if it gave none.
	Incarnation string
	// Alive says that the holder was seen to renew: if it is of the shard's own identity, two processes have one identity.
	Alive bool
	// Wait is for how long the record has to stand unchanged from now until it may be taken.
	Wait time.Duration
}
