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

// pass is the work of one round, and runs again after a conflict.
type pass struct {
	*Reconciler
	leaving   bool
	refreshed bool // this round's heartbeat has succeeded
	result    Round
}

// run reads the state and does everything that follows from it. A heartbeat waits neither for what
// is published nor for a missing Service.
func (p *pass) run(ctx context.Context) error {
	now, publishing := p.readPublished(ctx) // before the store: see publisher.read
	if publishing == nil {
		p.serviceUID = now.service.UID
		p.failures.Note("ports", p.missingPorts(now.service),
			"no client of the Service gets to a port of this instance",
			"the Service has all ports of this instance")
		p.failures.Note("families", p.missingFamilies(now.service),
			"no client of the Service gets to an address of this instance",
			"the Service has the families of all addresses of this instance")
	}
	if now.selected != nil && !p.leaving {
		return now.selected
	}
	p.connection.LeaveIfSilent(ctx)
	s, err := p.store.read(ctx)
	arrived := p.config.clock.Now()
	if err != nil {
		return errors.Join(err, publishing)
	}
	own := p.store.own()
	p.expiry.startRound(arrived, 2*p.settings.interval)
	p.expiry.observe(s, own, arrived)
	if p.leaving {
		s, err = p.leave(ctx, s, now.endpoints())
	} else {
		s, err = p.stay(ctx, s, now.endpoints(), arrived)
	}
	p.report(s)
	full := errors.Is(err, ErrFull)
	if errors.Is(err, errConflict) || err != nil && !p.refreshed && !full {
		return errors.Join(err, publishing)
	}
	p.expiry.finishRound(arrived, !p.leaving) // even if the store is full: otherwise it would stay full
	switch {
	case full: // leave what is published to the instances in the store
		return errors.Join(err, publishing)
	case p.leaving && errors.Is(publishing, ErrNoService):
		return err // the garbage collector deletes the slices
	case publishing != nil:
		return errors.Join(err, publishing)
	}
	if err = errors.Join(err, p.publish(ctx, now, s, arrived)); err != nil {
		return err
	}
	return now.selected
}

// readPublished returns what is published.
func (p *pass) readPublished(ctx context.Context) (publication, error) {
	ctx, cancel := p.share(ctx)
	defer cancel()
	return p.publisher.read(ctx)
}

// leave removes the entries of this instance and of earlier processes of this Pod. It keeps those
// of a later process with the same address and port.
func (p *pass) leave(ctx context.Context, s snapshot, published []Endpoint) (snapshot, error) {
	p.expiry.registered = false // or observe would take this removal for a loss of the store
	var mine []string
	living := p.expiry.living(s, published)
	for _, key := range p.store.own() {
		if e, exists := living.entries[key]; exists && (p.mayBeStale || p.store.mine(e)) {
			mine = append(mine, key)
		}
	}
	earlier := p.incarnation.predecessors(living, p.store.own())
	if len(mine)+len(earlier) > 0 {
		p.unpublished = true // even if no answer arrives
		next, removed, err := p.store.remove(ctx, s, slices.Concat(mine, earlier))
		p.result.Removals += len(removed)
		if err != nil {
			return s, err
		}
		if len(mine) > 0 {
			p.config.Logger.Info("withdrawn", zap.Strings("entries", mine))
			p.event(corev1.EventTypeNormal, "EndpointWithdrawn", "Withdraw", "%s withdrawn", list(p.endpoints))
		}
		for _, key := range earlier {
			p.reportPredecessor(key, s.entries[key])
		}
		s = next
		p.expiry.observe(s, p.store.own(), p.config.clock.Now())
	}
	p.mayBeStale = false
	return s, nil
}

// stay sends the heartbeat. It removes entries of earlier processes of this Pod, and entries that
// had expired when the store was read. It does not count the time since then, because this process
// may have been stopped, and the others with it. An instance that cannot register in a full store
// still removes expired entries.
func (p *pass) stay(ctx context.Context, s snapshot, published []Endpoint, arrived clock.Reading,
) (snapshot, error) {
	full, err := error(nil), error(nil)
	if !p.refreshed || p.missing(s) {
		if s, err = p.refresh(ctx, s); errors.Is(err, ErrFull) {
			full = err
		} else if err != nil {
			return s, err
		}
	}
	living := p.expiry.living(s, published)
	earlier := p.incarnation.predecessors(living, p.store.own())
	isEarlier := func(key string) bool { return slices.Contains(earlier, key) }
	expired := slices.DeleteFunc(p.expiry.expired(living, p.settings.expireAfter, arrived), isEarlier)
	if len(earlier)+len(expired) == 0 {
		return s, full
	}
	next, removed, err := p.store.remove(ctx, s, slices.Concat(earlier, expired))
	p.result.Removals += len(removed)
	for _, key := range removed {
		if isEarlier(key) {
			p.reportPredecessor(key, s.entries[key])
			continue
		}
		status := p.status(key, s.entries[key], arrived)
		p.config.Logger.Info("removed expired instance", zap.String("entry", key),
			zap.Duration("unchanged", status.Unchanged))
		p.event(corev1.EventTypeWarning, "EndpointExpired", "Remove", "%s removed: not refreshed for %v",
			list(status.Endpoints), status.Unchanged.Round(time.Second))
		if p.config.Hooks.OnExpired != nil {
			p.config.Hooks.OnExpired(status)
		}
	}
	p.expiry.observe(next, p.store.own(), p.config.clock.Now())
	return next, errors.Join(err, full)
}

// refresh sends the heartbeat.
func (p *pass) refresh(ctx context.Context, s snapshot) (snapshot, error) {
	p.mayBeStale = !p.registered
	next, err := p.store.refresh(ctx, s, heartbeat{p.config.clock.Now().Wall, p.incarnation.proved()})
	if err != nil {
		return s, err
	}
	p.result.Heartbeats++
	p.expiry.observe(next, p.store.own(), p.config.clock.Now())
	if !p.registered {
		p.config.Logger.Info("registered", zap.Strings("entries", p.store.own()))
	}
	p.refreshed, p.registered, p.mayBeStale = true, true, false
	return next, nil
}

// missing reports whether an entry of this instance is missing.
func (p *pass) missing(s snapshot) bool {
	return slices.ContainsFunc(p.store.own(), func(key string) bool { _, exists := s.entries[key]; return !exists })
}

// publish writes what has changed. An instance that withdraws and is not published leaves that to
// the others.
func (p *pass) publish(ctx context.Context, now publication, s snapshot, arrived clock.Reading) error {
	published := now.endpoints()
	visible := slices.ContainsFunc(published, func(e Endpoint) bool { return e.among(p.endpoints) })
	all, ok := p.expiry.wanted(p.expiry.living(s, published), published, p.endpoints, p.leaving,
		p.settings.expireAfter, arrived)
	p.expiry.forget(s, published)
	if !ok || p.leaving && !visible && !p.unpublished {
		return nil
	}
	writes, err := p.publisher.publish(ctx, now, all)
	p.result.Publications += writes
	p.unpublished = p.unpublished && err != nil
	if writes > 0 && err == nil && !slices.Equal(published, all) {
		p.config.Logger.Info("published", zap.String("endpoints", list(all)))
		if p.config.Hooks.OnPublished != nil {
			p.config.Hooks.OnPublished(all)
		}
	}
	if !p.leaving { // when leaving, a foreign Endpoints object is not a problem
		err = errors.Join(err, now.conflict)
	}
	return err
}
