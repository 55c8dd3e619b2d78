package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// errHangs is what a call says about the work that ought to have returned long ago.
var errHangs = errors.New("an earlier call has not returned")

// Health asks whether the work under a lease is alive. It is not for concurrent use.
type Health struct {
	check   func(context.Context) error // nil: it is
	overdue <-chan struct{}             // closed when the call returns that was given up; nil if there is none
	sick    error                       // what the last answer was
}

// NewHealth returns a Health that asks check.
func NewHealth(check func(context.Context) error) *Health { return &Health{check: check} }

// ask calls check, and waits so long for its answer. What it says later is not heard: it may have been true then. While it
// has not returned it is not called again, so that one that hangs is one goroutine, however often it is asked.
func (h *Health) ask(ctx context.Context, c clock.Clock, wait time.Duration) error {
	if h.overdue != nil {
		select {
		case <-h.overdue:
			h.overdue = nil
		default:
			return errHangs
		}
	}
	bounded, cancel := clock.WithTimeout(ctx, c, wait)
	defer cancel()
	returned := make(chan struct{})
	err := errors.New("it did not return normally")
	go func() {
		defer close(returned) // also when it ends by runtime.Goexit
		err = h.check(bounded)
	}()
	select {
	case <-returned:
	case <-bounded.Done():
		h.overdue = returned
		return context.Cause(bounded)
	}
	if err != nil && bounded.Err() != nil { // which says more than that a context was cancelled
		return context.Cause(bounded)
	}
	return err
}

// healthy asks whether the work is, unless ctx has ended: then it is stopping, and may say that it does. After an answer
// that does not come there is time for another attempt before the deadline.
func (h *Holder) healthy(ctx context.Context) error {
	health := h.config.Health
	if health.check == nil || ctx.Err() != nil {
		return nil
	}
	err := health.ask(ctx, h.config.Clock, min(h.config.Timing.RenewInterval(), h.Remaining())/2)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil && health.sick == nil {
		h.config.Log.Warn("not renewing while the work is not healthy", zap.Error(err))
	}
	if err == nil && health.sick != nil {
		h.config.Log.Info("the work is healthy again")
	}
	health.sick = err
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrUnhealthy, err)
		h.fail(err)
	}
	return err
}

// Renew sends a renewal if the work is healthy. Nil means that the deadline has moved, a *LostError that the term is
// over, any other error that it goes on until its deadline.
func (h *Holder) Renew(ctx context.Context) error {
	if h.Remaining() == 0 {
		return h.conclude()
	}
	err, latency := h.healthy(ctx), time.Duration(0)
	if err == nil {
		begin := h.config.Clock.Now()
		err = h.renew(ctx)
		latency = h.config.Clock.Now().SinceAtLeast(begin)
		if err != nil && h.doubt {
			err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
	}
	if !errors.Is(err, ErrLost) { // which is told as such
		h.config.OnRenewal(latency, err)
	}
	return err
}
