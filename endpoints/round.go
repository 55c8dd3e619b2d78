package endpoints

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
)

// pass is the work of one round, and runs again after a conflict.
type pass struct {
	reconciler *Reconciler
	leaving    bool
	refreshed  bool // this round's heartbeat has succeeded
	result     Round
}

// run reads the state and does everything that follows from it. A heartbeat waits neither for what
// is published nor for a missing Service.
func (p *pass) run(ctx context.Context) error {
	r := p.reconciler
	now, publishing := p.readPublished(ctx) // before the store: see publisher.read
	if publishing == nil {
		r.serviceUID = now.service.UID
		r.failures.Note("ports", r.config.missingPorts(now.service),
			"no client of the Service gets to a port of this instance",
			"the Service has all ports of this instance")
		r.failures.Note("families", r.config.missingFamilies(now.service),
			"no client of the Service gets to an address of this instance",
			"the Service has the families of all addresses of this instance")
	}
	if now.selected != nil && !p.leaving {
		return now.selected
	}
	r.connection.LeaveIfSilent(ctx)
	s, err := r.store.read(ctx)
	arrived := r.config.clock.Now()
	if err != nil {
		return errors.Join(err, publishing)
	}
	v := r.expiry.begin(s, now.endpoints(), p.leaving, arrived)
	if p.leaving {
		err = p.leave(ctx, v)
	} else {
		err = p.stay(ctx, v)
	}
	p.report(v)
	full := errors.Is(err, ErrFull)
	if errors.Is(err, errConflict) || err != nil && !p.refreshed && !full {
		return errors.Join(err, publishing)
	}
	v.finish() // even if the store is full: otherwise it would stay full
	switch {
	case full: // leave what is published to the instances in the store
		return errors.Join(err, publishing)
	case p.leaving && errors.Is(publishing, ErrNoService):
		return err // the garbage collector deletes the slices
	case publishing != nil:
		return errors.Join(err, publishing)
	}
	if err = errors.Join(err, p.publish(ctx, now, v)); err != nil {
		return err
	}
	return now.selected
}

// readPublished returns what is published.
func (p *pass) readPublished(ctx context.Context) (publication, error) {
	ctx, cancel := p.reconciler.share(ctx)
	defer cancel()
	return p.reconciler.publisher.read(ctx)
}

// leave removes the entries of this instance and of earlier processes of this Pod. It keeps those
// of a later process with the same address and port.
func (p *pass) leave(ctx context.Context, v *view) error {
	r := p.reconciler
	var mine []string
	living := v.living()
	for _, key := range r.expiry.keys {
		if e, exists := living[key]; exists && (r.mayBeStale || r.registered() && e.created.Equal(r.born)) {
			mine = append(mine, key)
		}
	}
	earlier := r.incarnation.predecessors(living, r.expiry.keys)
	if len(mine)+len(earlier) > 0 {
		r.unpublished = true // even if no answer arrives
	}
	if err := p.remove(ctx, v, mine, earlier, nil); err != nil {
		return err
	}
	r.mayBeStale = false
	return nil
}

// stay sends the heartbeat. It removes entries of earlier processes of this Pod, and expired ones. An
// instance that cannot register in a full store still removes expired entries.
func (p *pass) stay(ctx context.Context, v *view) error {
	r := p.reconciler
	var full error
	if !p.refreshed || v.missing() {
		if err := p.refresh(ctx, v); errors.Is(err, ErrFull) {
			full = err
		} else if err != nil {
			return err
		}
	}
	earlier := r.incarnation.predecessors(v.living(), r.expiry.keys)
	expired := slices.DeleteFunc(v.expired(), func(key string) bool { return slices.Contains(earlier, key) })
	return errors.Join(p.remove(ctx, v, nil, earlier, expired), full)
}

// remove removes entries: this instance's, those of earlier processes of this Pod, and expired ones.
func (p *pass) remove(ctx context.Context, v *view, mine, earlier, expired []string) error {
	keys := slices.Concat(mine, earlier, expired)
	if len(keys) == 0 {
		return nil
	}
	r, before := p.reconciler, v.store.entries
	next, removed, err := r.store.remove(ctx, v.store, keys)
	p.result.Removals += len(removed)
	if err == nil && len(mine) > 0 {
		r.config.Logger.Info("withdrawn", zap.Strings("entries", mine))
		r.event(corev1.EventTypeNormal, "EndpointWithdrawn", "Withdraw", "%s withdrawn", list(r.expiry.endpoints))
	}
	for _, key := range removed {
		switch {
		case slices.Contains(earlier, key):
			r.config.Logger.Info("withdrawn", zap.Strings("entries", []string{key}))
			r.event(corev1.EventTypeNormal, "EndpointWithdrawn", "Withdraw", "%s withdrawn: left by an earlier process",
				list(before[key].endpoints))
		case slices.Contains(expired, key):
			r.reportExpired(v.status(key, before[key], v.arrived))
		}
	}
	v.update(next, r.config.clock.Now())
	return err
}

func (r *Reconciler) reportExpired(s Status) {
	r.config.Logger.Info("removed expired instance", zap.String("entry", s.Key), zap.Duration("unchanged", s.Unchanged))
	r.event(corev1.EventTypeWarning, "EndpointExpired", "Remove", "%s removed: not refreshed for %v",
		list(s.Endpoints), s.Unchanged.Round(time.Second))
	call(r.config.Hooks.OnExpired, s)
}

// refresh sends the heartbeat.
func (p *pass) refresh(ctx context.Context, v *view) error {
	r := p.reconciler
	r.mayBeStale = !r.registered()
	h := heartbeat{r.config.clock.Now().Wall, r.born, r.incarnation.proved()}
	if !r.registered() {
		h.born = v.store.birth(r.expiry.keys, h.wall, r.store.resolution())
	}
	next, err := r.store.refresh(ctx, v.store, h)
	if err != nil {
		return err
	}
	p.result.Heartbeats++
	v.update(next, r.config.clock.Now())
	if !r.registered() {
		r.config.Logger.Info("registered", zap.Strings("entries", r.expiry.keys))
	}
	p.refreshed, r.born, r.mayBeStale = true, h.born, false
	return nil
}

// publish writes what has changed. An instance that withdraws and is not published leaves that to
// the others.
func (p *pass) publish(ctx context.Context, now publication, v *view) error {
	r := p.reconciler
	visible := slices.ContainsFunc(v.published, func(e Endpoint) bool { return e.among(r.expiry.endpoints) })
	all, ok := v.wanted()
	if !ok || p.leaving && !visible && !r.unpublished {
		return nil
	}
	writes, err := r.publisher.publish(ctx, now, all)
	p.result.Publications += writes
	r.unpublished = r.unpublished && err != nil
	if writes > 0 && err == nil && !slices.Equal(v.published, all) {
		r.config.Logger.Info("published", zap.String("endpoints", list(all)))
		call(r.config.Hooks.OnPublished, all)
	}
	if !p.leaving { // when leaving, a foreign Endpoints object is not a problem
		err = errors.Join(err, now.conflict)
	}
	return err
}
