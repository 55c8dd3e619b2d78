package shardlease

import "time"

// Hooks are functions that a [Lease] calls when something happens; each may be nil. They are called
// synchronously from the goroutine of Run, one at a time: one that blocks keeps it from renewing,
// and so costs the lease at the deadline. OnLost is called with a loss.
type Hooks struct {
	// OnHeld is called with a term before work is.
	OnHeld func(Epoch)

	// OnReleased is called with a term that was not lost, after work has ended and after the
	// attempt to release the lease.
	OnReleased func(Epoch)

	// OnWaiting is called with the holder of the lease, once for each holder, when Run has to wait
	// for it to be released or to expire, and once more when that holder turns out to be alive.
	OnWaiting func(HolderInfo)

	// OnRenewal is called with how an attempt to renew ended, and how long its requests took. err
	// is nil if the deadline has moved.
	OnRenewal func(latency time.Duration, err error)
}

func (h Hooks) held(e Epoch) {
	if h.OnHeld != nil {
		h.OnHeld(e)
	}
}

func (h Hooks) released(e Epoch) {
	if h.OnReleased != nil {
		h.OnReleased(e)
	}
}

func (h Hooks) waiting(s HolderInfo) {
	if h.OnWaiting != nil {
		h.OnWaiting(s)
	}
}

func (h Hooks) renewed(latency time.Duration, err error) {
	if h.OnRenewal != nil {
		h.OnRenewal(latency, err)
	}
}
