package leasehold

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/handover"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// Term is one period of holding a lease. It is valid until its deadline, which renewals move, and
// ends once: lost, or ended by us. It is safe for concurrent use.
//
// A timer enforces the deadline. It needs no other goroutine, so a hanging renewal, or work that
// ignores its context, cannot delay it.
type Term struct {
	lease    types.NamespacedName
	identity string
	timing   lease.Timing
	clock    clock.Clock
	onLost   func(*lease.LostError)
	kill     KillTimer // or nil
	ledger   lease.Ledger
	began    time.Duration // by the ledger's clock
	guard    *Guard        // or nil
	log      *handover.Log // of its guarded writes; nil if they are not noted
	over     chan struct{} // closed when it is no longer held

	mu      sync.Mutex
	state   state
	sent    clock.Reading           // when the write in the record was sent
	failing error                   // why the last renewal failed; nil if it did not
	timer   clock.Timer             // fires at the deadline
	cancel  context.CancelCauseFunc // ends the context of the work; nil without work
	loss    *lease.LostError        // set with state lost
	told    chan struct{}           // closed when onLost has returned

	scopes   map[*Scope]struct{}           // nil after the end
	requests map[*inflightRequest]struct{} // guarded requests
	open     openRequests                  // of the guard
}

type state int

const (
	held   state = iota
	lost         // at the deadline, or on evidence
	ending       // by us: no work runs, but its requests may be carried out
	ended        // by us, for good
)

func newTerm(c Config, guard *Guard, sent clock.Reading) *Term {
	if c.Ledger == nil {
		c.Ledger = noLedger{}
	}
	t := &Term{
		lease: c.Lease, identity: c.Identity, timing: c.Timing, clock: c.Clock, onLost: c.OnLost,
		kill: c.KillTimer, ledger: c.Ledger, began: c.Ledger.Now(), guard: guard, sent: sent,
		over: make(chan struct{}), told: make(chan struct{}),
	}
	t.open.ledger = c.Ledger
	t.mu.Lock() // the timer must not fire before it is stored
	t.timer = t.clock.AfterFunc(0, t.Expire)
	t.mu.Unlock()
	t.publishDeadline()
	return t
}

// checkInterval bounds the time between checks of the deadline, because a timer does not count
// suspension.
const checkInterval = time.Second

// promptly bounds the time from reading the clock to starting a timer in a process that was not
// stopped.
const promptly = 10 * time.Millisecond

// named returns a context of the term, for the guard and for package fresh.
func (t *Term) named(ctx context.Context, guard *Guard) context.Context {
	return handover.WithTerm(context.WithValue(ctx, termKey{guard}, t), t.over)
}

// Remaining returns how long the term lasts if no renewal succeeds; 0 once it is over.
func (t *Term) Remaining() time.Duration {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != held {
		return 0
	}
	return max(0, t.left(now))
}

// Begin records in the ledger that work on an object has begun. Call end when it has ended.
func (t *Term) Begin(object uint64) (end func()) { return t.ledger.Begin(object) }

// Lost reports whether the term has been lost. OnLost may still be running.
func (t *Term) Lost() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == lost
}

// Ended reports whether the term is over, with the loss if it was lost.
func (t *Term) Ended() (loss *lease.LostError, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loss, t.state != held
}

// begin registers the cancel function of the work, and reports whether the term is still valid.
func (t *Term) begin(cancel context.CancelCauseFunc) bool {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel = cancel
	return t.state == held && t.left(now) > 0
}

// extend moves the deadline, because the write sent at sent is in the record.
func (t *Term) extend(sent clock.Reading) {
	now := t.clock.Now()
	t.mu.Lock()
	// A term that has reached its deadline is not extended.
	extended := (t.state == held || t.state == ending) && t.left(now) > 0
	if extended {
		t.sent, t.failing = sent, nil
	}
	t.mu.Unlock()
	if extended {
		t.publishDeadline()
	}
}

// fail records why a renewal failed, for the error of a loss.
func (t *Term) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failing = err
}

// Forfeit ends the term as lost, because its work may not have ended and the lease must not be
// released.
func (t *Term) Forfeit(cause error) { t.lose(cause, t.identity) }

// Expire is called by the timer, and by others if that may be late. It ends the term at its deadline,
// or else resets the timer. If the process was stopped after reading the clock, the timer would be
// late, so it checks again.
func (t *Term) Expire() {
	for {
		now := t.clock.Now()
		t.mu.Lock()
		left := t.left(now)
		if t.state != held || left <= 0 {
			t.loseAndUnlock(t.overdue(), t.identity, now)
			return
		}
		t.timer.Reset(min(left, checkInterval))
		t.mu.Unlock()
		if t.clock.Now().SinceAtMost(now) < promptly {
			return
		}
	}
}

// left returns the time until the deadline. The caller holds mu.
func (t *Term) left(now clock.Reading) time.Duration { return t.timing.Left(t.sent, now) }

// overdue returns why the term reached its deadline. The caller holds mu.
func (t *Term) overdue() error {
	if t.failing != nil {
		return fmt.Errorf("%w: %w", lease.ErrDeadline, t.failing)
	}
	return lease.ErrDeadline
}

// lose ends the term now. holder is the known present holder of the lease.
func (t *Term) lose(cause error, holder string) {
	now := t.clock.Now()
	t.mu.Lock()
	t.loseAndUnlock(cause, holder, now)
}

func (t *Term) loseAndUnlock(cause error, holder string, now clock.Reading) {
	if t.state != held {
		t.mu.Unlock()
		return
	}
	t.state = lost
	close(t.over)
	t.timer.Stop()
	t.loss = &lease.LostError{
		Lease: t.lease, Identity: t.identity, Holder: holder, RenewedAt: t.sent.Wall, Age: now.SinceAtMost(t.sent),
		Err: cause,
	}
	cancel := t.cancel
	t.mu.Unlock()

	t.cancelRequests()
	if cancel != nil {
		cancel(t.loss)
	}
	defer close(t.told) // even if onLost ends its goroutine
	t.onLost(t.loss)
}

// conclude returns the loss of a term that is over or was seen past its deadline, even if the wall
// clock was set back since. It returns nil if we have ended the term.
func (t *Term) conclude() error {
	now := t.clock.Now()
	t.mu.Lock()
	if t.state == ending || t.state == ended {
		t.mu.Unlock()
		return nil
	}
	t.loseAndUnlock(t.overdue(), t.identity, now)
	<-t.told
	return t.loss
}

// finish ends the term from our side when no work is running. It returns the loss if that came
// first, even if the deadline has passed and the timer has not run yet, as in a process that
// resumes.
func (t *Term) finish() error {
	now := t.clock.Now()
	t.mu.Lock()
	if t.state == held && t.left(now) > 0 {
		t.state = ending
		close(t.over)
		t.timer.Stop()
	}
	t.mu.Unlock()
	return t.conclude()
}

// close ends a finished term for good.
func (t *Term) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = ended
}

// KillTimer is a [process.KillTimer]. It ends the process where the term's own timer cannot,
// because the process is stopped or starved.
type KillTimer interface {
	SetAt(boot time.Duration) error
	Stop() error
}

// publishDeadline sets the kill timer to half a margin after the deadline, and records the deadline in
// the ledger. Only the renewing goroutine calls it, so no earlier deadline replaces a later one.
func (t *Term) publishDeadline() {
	boot, booked := process.SinceBoot(), t.ledger.Now() // first: a stop before the next line shortens the time
	now := t.clock.Now()
	t.mu.Lock()
	left := t.left(now)
	t.mu.Unlock()
	if t.kill != nil {
		if err := t.kill.SetAt(boot + left + t.timing.Margin/2); err != nil { // the earlier deadline, if any, remains
			t.lose(fmt.Errorf("%w: %w", lease.ErrKillTimer, err), t.identity)
		}
	}
	t.ledger.Hold(t.began, booked+left, t.guard != nil && t.guard.Installed())
}

// DisarmKillTimer disarms the kill timer. No work of the term may be running.
func (t *Term) DisarmKillTimer() {
	if t.kill != nil {
		_ = t.kill.Stop() // a failure is safe: the process ends
	}
}

// noLedger is the ledger of a process without a supervisor.
type noLedger struct{}

func (noLedger) Now() time.Duration                      { return 0 }
func (noLedger) Hold(time.Duration, time.Duration, bool) {}
func (noLedger) Stored(lease.Record)                     {}
func (noLedger) Free()                                   {}
func (noLedger) Send()                                   {}
func (noLedger) Answer(time.Duration)                    {}
func (noLedger) Begin(uint64) (end func())               { return func() {} }
