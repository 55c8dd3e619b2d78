package endpoints

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
)

// turn is one attempt at a round after the other.
type turn struct {
	*Reconciler
	leaving   bool
	refreshed bool // this round's heartbeat has been sent, and answered
	withdrew  bool // this round has removed the own entries
	result    Round
}

// take does all there is to do, from what it reads. A heartbeat does not wait for what is published, nor for Services that do not exist.
func (t *turn) take(ctx context.Context) error {
	now, publishing := t.look(ctx) // before the store
	if errors.Is(publishing, ErrSelector) && !t.leaving {
		return publishing
	}
	if publishing == nil {
		t.serviceUID = now.service.UID
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
		s, err = t.stay(ctx, s)
	}
	if err != nil {
		if errors.Is(err, ErrFull) {
			t.memory.complete(arrived, false, true) // or nobody would ever make room
		}
		return errors.Join(err, publishing)
	}
	t.memory.complete(arrived, !t.leaving, !t.leaving)
	t.report(s)
	if t.leaving && errors.Is(publishing, ErrNoService) {
		return nil // its slices go with it
	}
	if publishing != nil {
		return publishing
	}
	return t.publish(ctx, now, s)
}

// look returns what is published.
func (t *turn) look(ctx context.Context) (publication, error) {
	ctx, cancel := t.share(ctx)
	defer cancel()
	return t.publisher.read(ctx)
}

// leave removes the own entries, but for those of another process with the same address and port that has come later.
func (t *turn) leave(ctx context.Context, s snapshot) (snapshot, error) {
	t.memory.inside = false
	var mine []string
	for _, key := range t.store.own() {
		if e, exists := s.entries[key]; exists && (!t.entered || t.store.mine(e)) {
			mine = append(mine, key)
		}
	}
	if len(mine) == 0 {
		return s, nil
	}
	s, err := t.store.remove(ctx, s, mine)
	if err == nil {
		t.withdrew = true
		t.result.Removals++
		t.memory.see(s, t.store.own(), t.config.Clock.Now())
		t.config.Logger.Info("withdrawn", zap.Strings("entries", mine))
		t.event(corev1.EventTypeNormal, "EndpointWithdrawn", "Withdraw", "%s withdrawn", list(t.endpoints))
	}
	return s, err
}

// stay refreshes the own entries and removes others' that have expired. Who cannot get in because the store is full may make room.
func (t *turn) stay(ctx context.Context, s snapshot) (snapshot, error) {
	var full error
	if !t.refreshed || t.missing(s) {
		before := t.entered
		next, err := t.store.refresh(ctx, s, t.config.Clock.Now().Wall)
		switch {
		case errors.Is(err, ErrFull):
			full = err
		case err != nil:
			return s, err
		default:
			s, t.refreshed, t.entered = next, true, true
			t.result.Heartbeats++
			t.memory.see(s, t.store.own(), t.config.Clock.Now())
			if !before {
				t.config.Logger.Info("registered", zap.Strings("entries", t.store.own()))
			}
		}
	}
	now := t.config.Clock.Now()
	expired := t.memory.expired(s, t.expireAfter, now)
	if len(expired) == 0 {
		return s, full
	}
	next, err := t.store.remove(ctx, s, expired)
	if err != nil {
		return s, errors.Join(err, full)
	}
	t.result.Removals++
	for _, key := range expired {
		status := t.status(key, s.entries[key], now)
		t.config.Logger.Info("removed an instance that has not been refreshed", zap.String("entry", key), zap.Duration("unchanged", status.Unchanged))
		t.event(corev1.EventTypeWarning, "EndpointExpired", "Remove", "%s removed: not refreshed for %v", list(status.Endpoints), status.Unchanged.Round(time.Second))
		if t.config.Hooks.OnExpired != nil {
			t.config.Hooks.OnExpired(status)
		}
	}
	t.memory.see(next, t.store.own(), now)
	return next, full
}

// missing reports whether an own entry is not there.
func (t *turn) missing(s snapshot) bool {
	return slices.ContainsFunc(t.store.own(), func(key string) bool { _, exists := s.entries[key]; return !exists })
}

// publish writes what has changed. An instance that is not in the store, and not published either, leaves that to the others.
func (t *turn) publish(ctx context.Context, now publication, s snapshot) error {
	at := t.config.Clock.Now()
	published := now.endpoints()
	visible := slices.ContainsFunc(published, func(e Endpoint) bool { return slices.Contains(t.endpoints, e) })
	all, ok := t.memory.wanted(s, published, t.endpoints, t.leaving, t.expireAfter, at)
	t.memory.forget(s, published)
	if !ok || t.leaving && !visible && !t.withdrew {
		return nil
	}
	writes, err := t.publisher.publish(ctx, now, all)
	t.result.Publications += writes
	if what := list(all); writes > 0 && what != t.published {
		t.published = what
		t.config.Logger.Info("published", zap.String("endpoints", what))
		if t.config.Hooks.OnPublished != nil {
			t.config.Hooks.OnPublished(all)
		}
	}
	if !t.leaving { // of an Endpoints object that is not ours there is nothing to withdraw
		err = errors.Join(err, now.conflict)
	}
	return err
}
