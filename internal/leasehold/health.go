package leasehold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/probe"
)

// Health checks whether the work under a lease is alive. It is not for concurrent use.
type Health struct {
	check func(context.Context) error // nil: always healthy
	probe probe.Probe
	sick  error // the last result
}

// NewHealth returns a Health that calls check.
func NewHealth(check func(context.Context) error) *Health { return &Health{check: check} }

// healthy checks the work, unless ctx has ended: work that is stopping may say that it is not
// healthy. If the check hangs, there is time for another attempt before the deadline.
func (h *Holder) healthy(ctx context.Context) error {
	health := h.config.Health
	if health.check == nil || ctx.Err() != nil {
		return nil
	}
	err := health.probe.Ask(ctx, h.config.Clock, min(h.config.Timing.RenewInterval(), h.Remaining())/2, health.check)
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
		h.fail(err)
	}
	return err
}

// Renew sends a renewal if the work is healthy. It returns nil if the deadline has moved and a
// *LostError if the term is over. After other errors the term goes on until its deadline.
func (h *Holder) Renew(ctx context.Context) error {
	if h.Remaining() == 0 {
		return h.conclude()
	}
	sick := h.config.Health.sick != nil
	err, latency := h.healthy(ctx), time.Duration(0)
	if err == nil {
		if reserved := h.reserved; sick { // it may have recovered just in time
			h.reserved = 0
			defer func() { h.reserved = reserved }()
		}
		begin := h.config.Clock.Now()
		err = h.renew(ctx)
		latency = h.config.Clock.Now().SinceAtLeast(begin)
		if err != nil && h.doubt {
			err = fmt.Errorf("%w: %w", lease.ErrOutcomeUnknown, err)
		}
	}
	if !errors.Is(err, lease.ErrLost) { // a loss is reported elsewhere
		h.config.OnRenewal(latency, err)
	}
	return err
}
