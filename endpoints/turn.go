package endpoints

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// turn is one attempt at a round after the other.
type turn struct {
	*Reconciler
	leaving   bool
	refreshed bool // this round's heartbeat has been sent, and answered
	result    Round
}

// take does all there is to do, from what it reads. A heartbeat does not wait for what is published, nor for Services that do not exist.
func (t *turn) take(ctx context.Context) error {
	now, publishing := t.look(ctx) // before the store
	if publishing == nil {
		t.serviceUID = now.service.UID
	}
	if now.selected != nil && !t.leaving {
		return now.selected
	}
	s, err := t.store.read(ctx)
	arrived := t.config.Clock.Now()
	if err != nil {
		return errors.Join(err, publishing)
	}
	own := t.store.own()
	t.memory.look(arrived, 2*t.interval)
	t.memory.see(s, own, arrived)
	if t.leaving {
		s, err = t.leave(ctx, s)
	} else {
		s, err = t.stay(ctx, s, arrived)
	}
	t.report(s)
	full := errors.Is(err, ErrFull)
	if errors.Is(err, errConflict) || err != nil && !t.refreshed && !full {
		return errors.Join(err, publishing)
	}
	t.memory.complete(arrived, !t.leaving) // also if the store is full, or nobody would ever make room
	switch {
	case full: // what is published is left to those who are in it
		return errors.Join(err, publishing)
	case t.leaving && errors.Is(publishing, ErrNoService):
		return err // its slices go with it
	case publishing != nil:
		return errors.Join(err, publishing)
	}
	if err = errors.Join(err, t.publish(ctx, now, s, arrived)); err != nil {
		return err
	}
	return now.selected
}

// look returns what is published.
func (t *turn) look(ctx context.Context) (publication, error) {
	ctx, cancel := t.share(ctx)
	defer cancel()
	return t.publisher.read(ctx)
}

// leave removes the own entries, but for those of another process with the same address and port
// that has come later; and those of earlier processes of this Pod.
func (t *turn) leave(ctx context.Context, s snapshot) (snapshot, error) {
	t.memory.inside = false // or it would take its own removal for a loss of the store
	var mine []string
	for _, key := range t.store.own() {
		if e, exists := s.entries[key]; exists && (t.unsettled || t.store.mine(e)) {
			mine = append(mine, key)
		}
	}
	earlier := t.incarnation.predecessors(s, t.store.own())
	if len(mine)+len(earlier) > 0 {
		t.unpublished = true // also if no answer comes
		next, removed, err := t.store.remove(ctx, s, slices.Concat(mine, earlier))
		t.result.Removals += len(removed)
		if err != nil {
			return s, err
		}
		if len(mine) > 0 {
			t.config.Logger.Info("withdrawn", zap.Strings("entries", mine))
			t.event(corev1.EventTypeNormal, "EndpointWithdrawn", "Withdraw", "%s withdrawn", list(t.endpoints))
		}
		for _, key := range earlier {
			t.reportPredecessor(key, s.entries[key])
		}
		s = next
		t.memory.see(s, t.store.own(), t.config.Clock.Now())
	}
	t.unsettled = false
	return s, nil
}

// stay refreshes the own entries. It removes those of earlier processes of this Pod, and others'
// that had expired when the store was read: what has passed since then may be a stop of this
// process, in which others may have been stopped as well. An instance that cannot get in because
// the store is full may make room.
func (t *turn) stay(ctx context.Context, s snapshot, arrived clock.Reading) (snapshot, error) {
	full, err := error(nil), error(nil)
	if !t.refreshed || t.missing(s) {
		if s, err = t.refresh(ctx, s); errors.Is(err, ErrFull) {
			full = err
		} else if err != nil {
			return s, err
		}
	}
	earlier := t.incarnation.predecessors(s, t.store.own())
	isEarlier := func(key string) bool { return slices.Contains(earlier, key) }
	expired := slices.DeleteFunc(t.memory.expired(s, t.expireAfter, arrived), isEarlier)
	if len(earlier)+len(expired) == 0 {
		return s, full
	}
	next, removed, err := t.store.remove(ctx, s, slices.Concat(earlier, expired))
	t.result.Removals += len(removed)
	for _, key := range removed {
		if isEarlier(key) {
			t.reportPredecessor(key, s.entries[key])
			continue
		}
		status := t.status(key, s.entries[key], arrived)
		t.config.Logger.Info("removed an instance that has not been refreshed", zap.String("entry", key), zap.Duration("unchanged", status.Unchanged))
		t.event(corev1.EventTypeWarning, "EndpointExpired", "Remove", "%s removed: not refreshed for %v", list(status.Endpoints), status.Unchanged.Round(time.Second))
		if t.config.Hooks.OnExpired != nil {
			t.config.Hooks.OnExpired(status)
		}
	}
	t.memory.see(next, t.store.own(), t.config.Clock.Now())
	return next, errors.Join(err, full)
}

// refresh sends the heartbeat.
func (t *turn) refresh(ctx context.Context, s snapshot) (snapshot, error) {
	t.unsettled = !t.entered
	next, err := t.store.refresh(ctx, s, heartbeat{t.config.Clock.Now().Wall, t.incarnation.proved()})
	if err != nil {
		return s, err
	}
	t.result.Heartbeats++
	t.memory.see(next, t.store.own(), t.config.Clock.Now())
	if !t.entered {
		t.config.Logger.Info("registered", zap.Strings("entries", t.store.own()))
	}
	t.refreshed, t.entered, t.unsettled = true, true, false
	return next, nil
}

// missing reports whether an own entry is not there.
func (t *turn) missing(s snapshot) bool {
	return slices.ContainsFunc(t.store.own(), func(key string) bool { _, exists := s.entries[key]; return !exists })
}

// publish writes what has changed. An instance that is not in the store, and not published either, leaves that to the others.
func (t *turn) publish(ctx context.Context, now publication, s snapshot, arrived clock.Reading) error {
	published := now.endpoints()
	visible := slices.ContainsFunc(published, func(e Endpoint) bool { return e.among(t.endpoints) })
	all, ok := t.memory.wanted(s, published, t.endpoints, t.leaving, t.expireAfter, arrived)
	t.memory.forget(s, published)
	if !ok || t.leaving && !visible && !t.unpublished {
		return nil
	}
	writes, err := t.publisher.publish(ctx, now, all)
	t.result.Publications += writes
	t.unpublished = t.unpublished && err != nil
	if writes > 0 && err == nil && !slices.Equal(published, all) {
		t.config.Logger.Info("published", zap.String("endpoints", list(all)))
		if t.config.Hooks.OnPublished != nil {
			t.config.Hooks.OnPublished(all)
		}
	}
	if !t.leaving { // of an Endpoints object that is not ours there is nothing to withdraw
		err = errors.Join(err, now.conflict)
	}
	return err
}
