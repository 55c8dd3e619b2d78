package leaderelection

import (
	"time"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// Hooks are functions that an [Elector] calls when something happens; each may be nil.
//
// They are called synchronously, one at a time, in the order of what happened, and with no lock held: they may call
// IsLeader, Remaining, Leader, LeaderAddress and Check, but not Run, TryAcquire, Renew and Release. They have to return
// soon, because they are called from the goroutine of Run (or of TryAcquire, Renew or Release): one that blocks keeps it
// from renewing, and so costs the leadership at the deadline. It does not keep a lost term from ending: OnStoppedLeading
// for a loss has a goroutine of its own, and OnLost is called after it, or after 50 ms if it has not returned by then.
type Hooks struct {
	// OnNewLeader is told the identity of a leader, this process or another, that is not the one it was told last. That
	// there is none is not told ([Elector.Leader] says so), nor is the same leader again after that.
	OnNewLeader func(identity string)

	// OnStartedLeading is told of a term before TryAcquire returns it and before lead is called.
	OnStartedLeading func(Term)

	// OnStoppedLeading is told of the end of every term that began. err is nil if it is given up after the lead
	// function has returned; the Lease is released afterwards. Otherwise it is the [ErrLost] that OnLost gets.
	OnStoppedLeading func(term Term, err error)

	// OnRenewal is told how an attempt to renew ended, and how long its requests took. err is nil if the deadline has
	// moved. It is an [ErrUnhealthy] if nothing was sent because Healthy failed, an [ErrOutcomeUnknown] if nobody can
	// tell yet whether the renewal stands, and another one if it does not stand. An attempt by which a loss is found
	// is not told: OnStoppedLeading is.
	OnRenewal func(latency time.Duration, err error)
}

// report is what has been told. It is guarded by the elector's mutex, under which everything to be told is given its
// place: what is true and what is told then change together, in one order. The hooks are called after it is unlocked.
type report struct {
	last    chan struct{} // closed when what was to be told last has been told
	leader  string        // told last
	leading *lease.Holder // of the term whose start was told, and whose end was not; nil if there is none
}

// next gives words their place. The caller holds the elector's mutex and has to call what next returns, once it does not.
func (r *report) next(words func()) (tell func()) {
	before, told := r.last, make(chan struct{})
	r.last = told
	return func() {
		if before != nil {
			<-before
		}
		defer close(told) // also if the hook ends its goroutine
		words()
	}
}

// newLeader returns how to tell of a holder that is seen. The caller holds mu.
func (e *Elector) newLeader(holder string) (tell func()) {
	hook := e.config.Hooks.OnNewLeader
	if hook == nil || holder == "" || holder == e.report.leader {
		return func() {}
	}
	e.report.leader = holder
	return e.report.next(func() { hook(holder) })
}

// reportStart tells that a term has begun.
func (e *Elector) reportStart(h *lease.Holder) {
	term := e.term(h)
	e.mu.Lock()
	e.report.leading = h
	tell := e.report.next(func() {
		if hook := e.config.Hooks.OnStartedLeading; hook != nil {
			hook(term)
		}
		e.events.became(term)
	})
	e.mu.Unlock()
	tell()
	e.finish() // if it was lost before its start could be told
}

// stopped returns how to tell that the term is over whose start was told, or nil if there is nothing to tell. Whoever may
// have ended a term calls it; the first has to tell.
func (e *Elector) stopped() (tell func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.report.leading
	if h == nil {
		return nil
	}
	loss, ended := h.Ended()
	if !ended {
		return nil
	}
	e.report.leading = nil
	var err error // or a nil *LostError would be none
	if loss != nil {
		err = loss
	}
	hook := e.config.Hooks.OnStoppedLeading
	if hook == nil && e.config.Events == nil {
		return nil
	}
	term := e.term(h)
	return e.report.next(func() {
		recorded := e.events.stopped(term, loss)
		if hook != nil {
			hook(term, err)
		}
		process.RunWithTimeout(func() { <-recorded })
	})
}

// finish tells of a term that is over, if it is.
func (e *Elector) finish() {
	if tell := e.stopped(); tell != nil {
		tell()
	}
}

// lose is told of a loss. No hook may keep a lost term from ending.
func (e *Elector) lose(err *lease.LostError) {
	if tell := e.stopped(); tell != nil {
		process.RunWithTimeout(tell)
	}
	e.config.OnLost(err)
}

// renewed is told how an attempt to renew has ended.
func (e *Elector) renewed(latency time.Duration, err error) {
	hook := e.config.Hooks.OnRenewal
	if hook == nil {
		return
	}
	e.mu.Lock()
	tell := e.report.next(func() { hook(latency, err) })
	e.mu.Unlock()
	tell()
}
