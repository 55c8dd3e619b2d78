package shardlease

import "time"

// Hooks are called by a [Lease] on changes. Each may be nil. They are called synchronously from the
// goroutine of Run, one at a time, so a hook that blocks also blocks renewals, which loses the
// lease at the deadline. A loss is reported to OnLost.
type Hooks struct {
	// OnHeld is called for each term, before work.
	OnHeld func(Epoch)

	// OnReleased is called for each term that was not lost, after the work has ended and the lease
	// was released, or the attempt has failed, or the work was asked to end by StepDown.
	OnReleased func(Epoch)

	// OnWaiting is called once for each holder whose release or expiry Run must wait for, and once
	// more if that holder is seen to renew.
	OnWaiting func(HolderInfo)

	// OnRenewal is called after each attempt to renew, with the time that its requests took. err is
	// nil if the deadline has moved.
	OnRenewal func(latency time.Duration, err error)

	// OnFailing is called while Run can neither follow, take nor renew the Lease: after each failed
	// attempt with the time since the first one and the error, and with 0 and nil once an attempt
	// has succeeded or Run ends. The rules are those of package leaderelection.
	OnFailing func(lasted time.Duration, err error)
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
