package leasehold

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// SteppedDown reports whether Run has returned before the deadline, because the lease could not be
// renewed. The lease was not released, so this process may take it again at once if nothing of the
// term is under way, and others when it has expired.
func (h *Holder) SteppedDown() bool { return h.stepped && !h.Term.Lost() }

// stepDown asks work to end if the deadline is near, and reports whether it has. Work that is not
// healthy ends with its process.
func (h *Holder) stepDown() bool {
	if h.Term.Remaining() > h.config.StepDown || h.health.sick != nil {
		return false
	}
	h.stepped = true
	h.Term.mu.Lock()
	cause := &lease.LostError{
		Lease: h.Term.lease, Identity: h.Term.identity, Holder: h.Term.identity,
		RenewedAt: h.Term.sent.Wall, Err: lease.ErrSteppedDown,
	}
	if h.Term.failing != nil {
		cause.Err = fmt.Errorf("%w: %w", lease.ErrSteppedDown, h.Term.failing)
	}
	cancel, sent := h.Term.cancel, h.Term.sent
	h.Term.mu.Unlock()
	cause.Age = h.Term.clock.Now().SinceAtMost(sent)
	h.config.Log.Warn("the work has to end before the deadline", zap.Error(cause))
	cancel(cause)
	return true
}

// vacate ends the term after work has returned err.
func (h *Holder) vacate(ctx context.Context, err error) error {
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, lease.ErrSteppedDown) {
		h.config.Log.Warn("work ended with an error after the lease was lost", zap.Error(err))
	}
	h.abandon()
	lost, err := h.finish(ctx)
	h.vacated = lost == nil && err == nil
	return lost
}

// stepsDown reports whether ctx is that of the work of another lease that could not be renewed. The
// work has to return before that lease's deadline, so there is no time to release this one.
func stepsDown(ctx context.Context) bool { return errors.Is(context.Cause(ctx), lease.ErrSteppedDown) }

// outliving returns a context for a request that outlives ctx, unless another lease steps down.
func outliving(ctx context.Context) (_ context.Context, end func()) {
	request, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if stepsDown(ctx) {
			cancel(context.Cause(ctx))
		}
	})
	return request, func() {
		stop()
		cancel(nil)
	}
}
