package leasehold

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// health checks whether the work under a lease is alive. It is not for concurrent use.
type health struct {
	check func(context.Context) error // always healthy if nil
	probe clock.Probe
	sick  error // the last result
}

// healthy checks the work, unless ctx has ended, because work that is stopping may report that it
// is not healthy. If the check hangs, there is time for another attempt before the deadline.
func (h *Holder) healthy(ctx context.Context) error {
	health := h.health
	if health.check == nil || ctx.Err() != nil {
		return nil
	}
	longest := min(h.config.Timing.RenewInterval(), h.Term.Remaining()) / 2
	err := health.probe.Ask(ctx, h.config.Clock, longest, health.check)
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
		err = fmt.Errorf("%w: %w", lease.ErrUnhealthy, err)
		h.Term.fail(err)
	}
	return err
}

// Renew sends a renewal if the work is healthy. It returns nil if the deadline has moved and a
// *LostError if the term is over. After other errors the term continues until its deadline.
func (h *Holder) Renew(ctx context.Context) error {
	if over, err := h.beginRenewal(ctx); over {
		return err
	}
	return h.endRenewal(h.swap.wait(ctx.Done()))
}

// beginRenewal begins a renewal if the work is healthy. Otherwise it is over, with the error that
// Renew returns.
func (h *Holder) beginRenewal(ctx context.Context) (over bool, err error) {
	if h.Term.Remaining() == 0 {
		return true, h.Term.conclude()
	}
	if err := h.healthy(ctx); err != nil {
		h.config.OnRenewal(0, err)
		return true, err
	}
	h.renew(ctx)
	return false, nil
}

// renew begins a renewal. No other may be under way.
func (h *Holder) renew(ctx context.Context) {
	h.asked = h.config.Clock.Now()
	h.swap = h.newSwap(ctx, h.left(), h.renewal())
}

// endRenewal handles the end of the renewal under way.
func (h *Holder) endRenewal(err error) error {
	h.swap = nil
	switch {
	case errors.Is(err, lease.ErrTaken):
		return h.Term.conclude() // a loss is reported elsewhere
	case err != nil && h.doubt:
		err = fmt.Errorf("%w: %w", lease.ErrOutcomeUnknown, err)
	}
	if err != nil {
		h.Term.fail(err)
	}
	h.config.OnRenewal(h.config.Clock.Now().SinceAtLeast(h.asked), err)
	return err
}
