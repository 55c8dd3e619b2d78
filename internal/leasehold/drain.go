package leasehold

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

var errNotDrained = errors.New("at the deadline a guarded request could still have been carried out")

// drain renews the lease until no guarded request can be carried out, because a successor may begin
// as soon as the lease is released. Requests without an answer after a margin are cut off. A
// request that failed without an answer may be carried out until a margin after the API server
// gives it up. drain returns errNotDrained if the deadline comes first, or if ctx ends because
// another lease steps down, and ErrTaken if another process has the lease.
func (h *Holder) drain(ctx context.Context) (err error) {
	defer func() {
		if h.swap == nil {
			return
		}
		if joined := h.join(); errors.Is(joined, lease.ErrTaken) {
			err = joined
		}
	}()
	c, timing := h.config.Clock, h.config.Timing
	begin, renewal := c.Now(), h.newPace()
	defer renewal.timer.Stop()
	ended := ctx.Done()
	for {
		now := c.Now()
		left := timing.Left(h.writes.Sent(), now)
		rest, landed := h.Term.open.rest(now, timing.Margin)
		if landed != nil {
			rest = timing.Margin - now.SinceAtLeast(begin)
		}
		switch {
		case left <= 0:
			return errNotDrained
		case rest <= 0 && landed == nil:
			return nil
		case stepsDown(ctx):
			return errNotDrained
		case rest <= 0:
			h.cutOff() // abandons them
			continue
		}
		look := c.NewTimer(min(rest, left, checkInterval)) // a timer does not count suspension
		select {
		case <-landed:
		case <-ended:
			ended = nil
		case <-look.C():
		case <-renewal.timer.C():
			h.renew(ctx)
		case a := <-h.swap.answered():
			if over, err := h.swap.receive(a); over {
				h.swap = nil
				if errors.Is(err, lease.ErrTaken) {
					return err
				}
				renewal.next(err)
			}
		case <-h.swap.due():
			h.swap.again()
		}
		look.Stop()
	}
}

// cutOff ends guarded requests under way, including answers being read and upgraded connections.
func (h *Holder) cutOff() {
	if n := h.Term.cancelRequests(); n > 0 {
		h.config.Log.Warn("requests had no answer when the term ended: their outcome is unknown",
			zap.Int("requests", n))
	}
}

// openRequests are requests that may still be carried out: without an answer yet, or failed without
// one.
type openRequests struct {
	ledger    lease.Ledger // nil for a scope, whose requests its term also counts
	mu        sync.Mutex
	flying    int           // without an answer yet
	abandoned []abandoned   // failed without an answer
	landed    chan struct{} // closed when flying is zero; nil without a waiter
}

// abandoned is a request that may be carried out later. It arrived before it failed, if at all, and
// may have been sent long before.
type abandoned struct {
	failed clock.Reading
	bound  time.Duration // after which the API server gives up
	until  time.Duration // a margin later, by the ledger's clock
}

// serverTimeout is the API server's default for how long it tries to carry out a request.
const serverTimeout = time.Minute

// begin counts a request that is about to be sent.
func (o *openRequests) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flying++
	if o.ledger != nil {
		o.ledger.Send()
	}
}

// answer records that a request was answered or abandoned.
func (o *openRequests) answer(without ...abandoned) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ledger != nil {
		until := time.Duration(0)
		for _, a := range without {
			until = a.until
		}
		o.ledger.Answer(until)
	}
	o.abandoned = append(o.abandoned, without...)
	o.flying--
	if o.flying == 0 && o.landed != nil {
		close(o.landed)
		o.landed = nil
	}
}

// rest returns how long abandoned requests may still be carried out, including a margin, and a
// channel that is closed when all others have an answer; nil if they have.
func (o *openRequests) rest(now clock.Reading, margin time.Duration) (wait time.Duration, landed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	left := func(a abandoned) time.Duration { return a.bound + margin - now.SinceAtLeast(a.failed) }
	o.abandoned = slices.DeleteFunc(o.abandoned, func(a abandoned) bool { return left(a) <= 0 })
	for _, a := range o.abandoned {
		wait = max(wait, left(a))
	}
	if o.flying > 0 {
		if o.landed == nil {
			o.landed = make(chan struct{})
		}
		landed = o.landed
	}
	return wait, landed
}
