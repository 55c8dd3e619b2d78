package leasehold

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// watchLease watches the record until ctx ends, and ends the term when another process has changed
// the record. The next renewal would notice up to a renew interval later, and does so if watching
// is forbidden.
func (h *Holder) watchLease(ctx context.Context) {
	pause := backoff(h.config.Timing)
	for ctx.Err() == nil {
		delay := pause.Step()
		switch useful, err := h.follow(ctx); {
		case useful:
			pause = backoff(h.config.Timing)
		case kube.RoleMissing(err):
			delay = maxWatchBackoff
		}
		clock.SleepBy(ctx, h.config.Clock, delay)
	}
}

// follow reads one watch to its end, and reports whether it had an event of the record.
func (h *Holder) follow(ctx context.Context) (useful bool, err error) {
	w, err := h.store.Watch(ctx, h.latestRecord().ResourceVersion(), h.config.Timing.RenewInterval())
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok || e.Type == watch.Error {
				return useful, nil
			}
			r, ok := h.store.recordOf(e)
			if !ok {
				continue
			}
			useful = true
			h.handleEvent(r, e.Type == watch.Deleted)
		case <-ctx.Done():
			return useful, nil
		}
	}
}

// handleEvent ends the term if an event proves that it is over. Events are late, and may be from
// before the term, so only a version above our own is a proof. A lower one, as after a restore of
// the cluster, is left to the next renewal.
func (h *Holder) handleEvent(r lease.Record, deleted bool) {
	h.writesMu.Lock()
	ours, standing := !deleted && h.writes.Contains(r) && h.altered(r) == nil, h.writes.Standing()
	h.writesMu.Unlock()
	if ours {
		return
	}
	switch order, known := r.CompareVersion(standing); {
	case !known:
		select {
		case h.recheck <- struct{}{}:
		default:
		}
	case deleted && order >= 0: // in fake clientsets a deletion has no new version
		_ = h.lostTo(lease.Record{})
	case order > 0:
		_ = h.lostTo(r)
	}
}

// lostTo ends the term because r is the record now.
func (h *Holder) lostTo(r lease.Record) error {
	cause := lease.ErrTaken
	switch {
	case !r.Exists():
		cause = fmt.Errorf("%w: the Lease was deleted", lease.ErrTaken)
	default:
		if err := errors.Join(h.altered(r), h.config.Variant.whyUnfit(r)); err != nil {
			cause = fmt.Errorf("%w: %w", lease.ErrTaken, err)
		} else if changes := h.latestRecord().ChangesTo(r); changes != "" && r.Holder() == h.config.Identity {
			cause = fmt.Errorf("%w: %s", lease.ErrTaken, changes) // the holder does not show what has happened
		}
	}
	h.Term.lose(cause, r.Holder()) // before OnHolder, which may take time
	h.config.OnHolder(r)
	return cause
}

// latestRecord returns the last known version of our record, for any goroutine.
func (h *Holder) latestRecord() lease.Record {
	h.writesMu.Lock()
	defer h.writesMu.Unlock()
	return h.writes.Standing()
}
