package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// watchLease watches the record of the term until ctx has ended, and ends the term as soon as the API server shows that the record is
// somebody else's: a renewal would show it up to a renew interval later. Where watching is not allowed, nothing else does.
func (h *Holder) watchLease(ctx context.Context) {
	pause := backoff(h.config.Timing)
	for ctx.Err() == nil {
		delay := pause.Step()
		switch useful, err := h.follow(ctx); {
		case useful:
			pause = backoff(h.config.Timing)
		case kube.RoleMissing(err): // the candidate has said so
			delay = maxWatchBackoff
		}
		timer := h.config.Clock.NewTimer(delay)
		select {
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// follow reads one watch to its end, and reports whether it said anything of use.
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

// handleEvent ends the term if an event proves that it is over. Events come late, and the first may be from before the term: only a version
// above the own one proves anything. A lower one is left to the next renewal, as in a cluster that was restored from a backup.
func (h *Holder) handleEvent(r Record, deleted bool) {
	h.writesMu.Lock()
	ours, standing := !deleted && h.writes.Contains(r) && h.altered(r) == nil, h.writes.record
	h.writesMu.Unlock()
	if ours {
		return
	}
	switch order, known := r.compareVersion(standing); {
	case !known:
		select {
		case h.recheck <- struct{}{}: // ask
		default:
		}
	case deleted && order >= 0: // fake clientsets give a deletion no version of its own
		_ = h.lostTo(Record{})
	case order > 0:
		_ = h.lostTo(r)
	}
}

// lostTo ends the term, because r stands.
func (h *Holder) lostTo(r Record) error {
	cause := ErrTaken
	switch {
	case !r.Exists():
		cause = fmt.Errorf("%w: the Lease was deleted", ErrTaken)
	default:
		if err := errors.Join(h.altered(r), h.config.unfit(r)); err != nil {
			cause = fmt.Errorf("%w: %w", ErrTaken, err)
		}
	}
	h.lose(cause, r.Holder()) // before it is told who has it, which may take time
	h.config.OnHolder(r)
	return cause
}

// standing is the version that stands as far as is known, for any goroutine.
func (h *Holder) latestRecord() Record {
	h.writesMu.Lock()
	defer h.writesMu.Unlock()
	return h.writes.record
}

// compareVersion compares resourceVersions, which API servers count up; known is false for those of anything else, such as fake
// clientsets.
func (r Record) compareVersion(o Record) (order int, known bool) {
	a, errA := strconv.ParseUint(r.ResourceVersion(), 10, 64)
	b, errB := strconv.ParseUint(o.ResourceVersion(), 10, 64)
	return cmp.Compare(a, b), errA == nil && errB == nil
}
