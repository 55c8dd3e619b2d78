package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Term is one period of holding a lease, as every goroutine of the process may see it: valid until its deadline, which
// renewals move, and over once, either lost or ended by us.
//
// The deadline is enforced by a timer that needs no other goroutine to make progress: a renewal that hangs, or work that
// ignores its context, cannot hold it up.
type Term struct {
	lease    types.NamespacedName
	identity string
	timing   Timing
	clock    clock.Clock
	onLost   func(*LostError)
	kill     KillTimer // nil: none

	mu      sync.Mutex
	state   state
	sent    clock.Reading           // when the write was sent that stands in the record
	failing error                   // why the last renewal failed; nil if it did not
	timer   clock.Timer             // fires at the deadline
	cancel  context.CancelCauseFunc // ends the context of the work; nil while there is none
	loss    *LostError              // set with state lost
	told    chan struct{}           // closed when onLost has returned

	scopes   map[*Scope]struct{}           // pieces of work; nil also after the end
	requests map[*inflightRequest]struct{} // requests under the guard
	open     openRequests                  // of the guard
}

type state int

const (
	held   state = iota
	lost         // at the deadline, or on evidence
	ending       // by us: work has returned or never began, and requests of it may still be carried out
	ended        // so it did
)

func newTerm(c Config, sent clock.Reading) *Term {
	t := &Term{
		lease: c.Lease, identity: c.Identity, timing: c.Timing, clock: c.Clock, onLost: c.OnLost,
		kill: c.KillTimer, sent: sent, told: make(chan struct{}),
	}
	t.mu.Lock() // or the timer could fire before it is stored
	t.timer = t.clock.AfterFunc(0, t.expire)
	t.mu.Unlock()
	t.armKillTimer()
	return t
}

// checkInterval is how often at least the deadline is checked: a timer does not count the time that a machine is suspended.
const checkInterval = time.Second

// promptly is how long a goroutine that runs may take from a look at the clock to the start of a timer.
const promptly = 10 * time.Millisecond

// Remaining is how long the term lasts if no renewal succeeds; zero once it is over.
func (t *Term) Remaining() time.Duration {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != held {
		return 0
	}
	return max(0, t.left(now))
}

// Lost reports whether the term has been lost. OnLost may still be running.
func (t *Term) Lost() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == lost
}

// Ended reports whether the term is over, and by which loss if it is lost.
func (t *Term) Ended() (loss *LostError, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loss, t.state != held
}

// Expire ends the term if it has reached its deadline, should the timer be late.
func (t *Term) Expire() { t.expire() }

// begin registers how to end the work, and reports whether there is still time for any.
func (t *Term) begin(cancel context.CancelCauseFunc) bool {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel = cancel
	return t.state == held && t.left(now) > 0
}

// extend moves the deadline: the write that was sent at sent stands.
func (t *Term) extend(sent clock.Reading) {
	now := t.clock.Now()
	t.mu.Lock()
	extended := (t.state == held || t.state == ending) && t.left(now) > 0 // a term that has reached its deadline does not come back
	if extended {
		t.sent, t.failing = sent, nil
	}
	t.mu.Unlock()
	if extended {
		t.armKillTimer()
	}
}

// fail notes why a renewal failed, for the message in case none succeeds.
func (t *Term) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failing = err
}

// Forfeit ends the term as lost: its work may not have ended, so the lease must not be released.
func (t *Term) Forfeit(cause error) { t.lose(cause, t.identity) }

// expire is called by the timer. It ends the term at its deadline, and otherwise sees to it that it is called again by then. That
// does not depend on when the process was last stopped: if it was since the look at the clock, the timer is late.
func (t *Term) expire() {
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

// left is the time until the deadline. The caller holds mu.
func (t *Term) left(now clock.Reading) time.Duration { return t.timing.Left(t.sent, now) }

// overdue is why a term has reached its deadline. The caller holds mu.
func (t *Term) overdue() error {
	if t.failing != nil {
		return fmt.Errorf("%w: %w", ErrDeadline, t.failing)
	}
	return ErrDeadline
}

// lose ends the term now. holder is who has the lease instead, as far as is known.
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
	t.timer.Stop()
	t.loss = &LostError{
		Lease: t.lease, Identity: t.identity, Holder: holder, RenewedAt: t.sent.Wall, Age: now.SinceAtMost(t.sent), Err: cause,
	}
	cancel := t.cancel
	t.mu.Unlock()

	t.cancelRequests()
	if cancel != nil {
		cancel(t.loss)
	}
	defer close(t.told) // also if onLost ends its goroutine
	t.onLost(t.loss)
}

// conclude returns the loss of a term that was seen to have reached its deadline, or to be over. It is lost even if the deadline seems to
// be ahead again, because the wall clock has been set back since. Nil: we have ended it.
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

// finish ends the term from our side, when no work is running. It returns the loss if that came first, also if the deadline
// has passed and the timer has not been scheduled yet, as when a stopped process wakes: work has outlived its term.
func (t *Term) finish() error {
	now := t.clock.Now()
	t.mu.Lock()
	if t.state == held && t.left(now) > 0 {
		t.state = ending
		t.timer.Stop()
	}
	t.mu.Unlock()
	return t.conclude()
}

// close ends a term for good that finish has.
func (t *Term) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = ended
}
