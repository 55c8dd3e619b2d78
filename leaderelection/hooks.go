package leaderelection

import (
	"time"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/leasehold"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// Hooks are called by an [Elector] on changes. Each may be nil.
//
// They are called synchronously, one at a time, in the order of the changes, and without locks.
// They may call IsLeader, Remaining, Leader, LeaderAddress and Check, but not Run, TryAcquire,
// Renew or Release. They must return soon, because a hook that blocks also blocks renewals, so that
// leadership is lost at the deadline. Hooks do not delay a loss: OnLost is called after
// OnStoppedLeading, but at most 50 ms later.
type Hooks struct {
	// OnNewLeader is called with each newly observed leader identity, including this process. It is
	// not called when the Lease becomes free, nor when the same leader takes it again.
	OnNewLeader func(identity string)

	// OnStartedLeading is called before TryAcquire returns the term and before lead is called.
	OnStartedLeading func(Term)

	// OnStoppedLeading is called at the end of each term. err is nil if the lead function has
	// returned; the Lease is released afterwards, unless that was a step down. Otherwise err is the
	// [ErrLost] that OnLost gets.
	OnStoppedLeading func(term Term, err error)

	// OnRenewal is called after each attempt to renew, with the time that its requests took. err is
	// nil if the deadline has moved. It matches [ErrUnhealthy] if nothing was sent because Healthy
	// failed, and [ErrOutcomeUnknown] if it is not known yet whether the renewal was stored. Other
	// errors mean that it was not. For an attempt that finds a loss, OnStoppedLeading is called
	// instead.
	OnRenewal func(latency time.Duration, err error)

	// OnFailing is called while Run cannot follow or take the Lease as a candidate, or renew it as
	// the leader: after each failed attempt with the time since the first one and the error, and
	// with 0 and nil once an attempt has succeeded or Run ends. It is not called for a candidate
	// that follows a leader, nor when Healthy fails.
	OnFailing func(lasted time.Duration, err error)
}

// report orders the calls of hooks. It is guarded by the elector's mutex: state and order of calls
// change together. The hooks are called after it is unlocked.
type report struct {
	last    chan struct{}     // closed when the last queued call has returned
	leader  string            // the last reported leader
	leading *leasehold.Holder // of the term that was reported as started, but not yet as ended; or nil
}

// enqueue orders call after earlier calls. The caller holds the elector's mutex, and must call run
// after it has unlocked it.
func (r *report) enqueue(call func()) (run func()) {
	before, done := r.last, make(chan struct{})
	r.last = done
	return func() {
		if before != nil {
			<-before
		}
		defer close(done) // even if the hook ends its goroutine
		call()
	}
}

// newLeader enqueues OnNewLeader for an observed holder. The caller holds mu.
func (e *Elector) newLeader(holder string) (run func()) {
	hook := e.hooks.OnNewLeader
	if hook == nil || holder == "" || holder == e.report.leader {
		return func() {}
	}
	e.report.leader = holder
	return e.report.enqueue(func() { hook(holder) })
}

// reportStart calls hooks and records an Event for a term that has begun.
func (e *Elector) reportStart(h *leasehold.Holder) {
	term := e.term(h)
	e.mu.Lock()
	e.report.leading = h
	run := e.report.enqueue(func() {
		if hook := e.hooks.OnStartedLeading; hook != nil {
			hook(term)
		}
		e.events.became(term)
	})
	e.mu.Unlock()
	run()
	e.finish() // it may have been lost before
}

// reportStop enqueues the report of the end of a term whose start was reported. It returns nil if
// no such term has ended. All callers that may have ended a term call it, but only the first one
// gets the report.
func (e *Elector) reportStop() (run func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.report.leading
	if h == nil {
		return nil
	}
	loss, ended := h.Term.Ended()
	if !ended {
		return nil
	}
	e.report.leading = nil
	var err error // a nil *LostError would not be nil here
	if loss != nil {
		err = loss
	}
	hook := e.hooks.OnStoppedLeading
	if hook == nil && e.events.recorder == nil {
		return nil
	}
	term := e.term(h)
	return e.report.enqueue(func() {
		recorded := e.events.stopped(term, loss)
		if hook != nil {
			hook(term, err)
		}
		process.RunWithTimeout(func() { <-recorded })
	})
}

// finish reports the end of a term that is over.
func (e *Elector) finish() {
	if run := e.reportStop(); run != nil {
		run()
	}
}

// lose handles a loss. No hook may delay the end of a lost term.
func (e *Elector) lose(err *lease.LostError) {
	if run := e.reportStop(); run != nil {
		process.RunWithTimeout(run)
	}
	e.onLost(err)
}

// failing reports a failed attempt, or the end of the failures.
func (e *Elector) failing(lasted time.Duration, err error) {
	e.call(e.hooks.OnFailing, lasted, err)
}

// renewed reports an attempt to renew.
func (e *Elector) renewed(latency time.Duration, err error) {
	e.call(e.hooks.OnRenewal, latency, err)
}

// call calls a hook, which may be nil, after earlier calls.
func (e *Elector) call(hook func(time.Duration, error), d time.Duration, err error) {
	if hook == nil {
		return
	}
	e.mu.Lock()
	run := e.report.enqueue(func() { hook(d, err) })
	e.mu.Unlock()
	run()
}
