package sharder

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/ring"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// followMembership distributes objects under one membership after another until ctx ends. It
// returns an error if the API server keeps refusing what this needs.
func (e *session) followMembership(ctx context.Context) error {
	pause := minPause
	var refused time.Time // since when
	for ctx.Err() == nil {
		m, wait := e.leases.membership()
		if len(m) == 0 {
			if e.plan.Swap(nil) != nil {
				e.config.Logger.Warn("there is no shard left: objects wait for one")
				e.announce(nil)
			}
			e.await(ctx, wait)
			continue
		}
		p, err := e.adoptMembership(ctx, m)
		if err == nil {
			pause, refused = minPause, time.Time{}
			e.serveMembership(ctx, p)
			continue
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case !kube.Forbidden(err):
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		case time.Since(refused) >= e.config.LeaseDuration:
			return fmt.Errorf("sharder: %w", err)
		}
		e.config.Logger.Log(warning(ctx, err), "a new membership could not be stored, retrying",
			zap.Error(err))
		clock.Sleep(ctx, pause)
		pause = min(2*pause, maxPause)
	}
	return nil
}

// await waits until the shards' Leases have changed, and reports whether they have. It waits for at
// most wait, or without limit if wait is zero.
func (e *session) await(ctx context.Context, wait time.Duration) (changed bool) {
	if wait <= 0 {
		wait = time.Hour
	}
	timer := e.config.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-e.changed:
		return true
	}
	return false
}

// adoptMembership returns the plan for a membership, once the ring's history contains it. The
// history then contains the membership without those that do not renew their Leases as well, so
// that new objects can be assigned among the others.
func (e *session) adoptMembership(ctx context.Context, m protocol.Membership) (*plan, error) {
	living := e.leases.renewing(m)
	if len(living) > 0 && len(living) < len(m) {
		if err := e.store.begin(ctx, living); err != nil {
			return nil, err
		}
	}
	if err := e.store.begin(ctx, m); err != nil {
		return nil, err
	}
	p, err := e.replan(m, living)
	if err != nil {
		return nil, err
	}
	kept := map[string]bool{} // a former member may return in the same epoch
	for _, shard := range append(m.Names(), e.leases.known()...) {
		kept[shard] = true
	}
	e.floors.prune(kept)
	e.settled.Store(false)
	e.config.Logger.Info("the members of the ring have changed", zap.Strings("members", m.Names()))
	e.announce(m.Names())
	return p, nil
}

// replan returns the plan for a membership, with all that is known of those before.
func (e *session) replan(m, living protocol.Membership) (*plan, error) {
	h := e.store.known.With(m)
	p, err := newPlan(h, ring.WithTokens(e.config.TokensPerShard))
	if err != nil {
		return nil, err
	}
	p.living = living
	e.history.Store(&h)
	e.plan.Store(p)
	return p, nil
}

func (e *session) announce(members []string) {
	if e.config.Hooks.OnMembership != nil {
		e.config.Hooks.OnMembership(members)
	}
}

// serveMembership distributes objects by a plan until the membership changes.
func (e *session) serveMembership(ctx context.Context, p *plan) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var listed sync.WaitGroup
	for i, r := range e.resources {
		selector := r.Selector
		if !e.config.WatchAll {
			selector = p.strays(e.keys, r.Selector)
		}
		for _, src := range e.sources(i, selector) {
			listed.Add(1)
			once := sync.OnceFunc(listed.Done)
			all.Go(func() {
				defer once()
				e.reported(src, "stray").run(ctx, sink{
					found: func(o *metav1.PartialObjectMetadata) bool {
						v, ok := e.rootOf(i, o)
						return !ok || e.enqueueIfNeeded(ctx, v)
					},
					listed: once, failed: once, // other resources do not wait for one that cannot be listed
				})
			})
		}
	}
	all.Go(func() { e.resolveFormerMembers(ctx) })
	news := make(chan struct{}, 1)
	all.Go(func() {
		listed.Wait()
		e.keepScanning(ctx, p, news)
	})
	for ctx.Err() == nil {
		m, wait := e.leases.membership()
		if !slices.Equal(m, p.members) || e.planIsOutlived(p) {
			return
		}
		if e.await(ctx, wait) || e.leases.matured() {
			notify(news)
		}
	}
}

// planIsOutlived reports whether a new object waits for another plan because a member does not renew its
// Lease any more, or all members of a plan that was made for such a case renew theirs again.
func (e *session) planIsOutlived(p *plan) bool {
	living := e.leases.renewing(p.members)
	if len(living) == len(p.members) {
		return len(p.living) > 0 && len(p.living) < len(p.members)
	}
	return e.outlived.Swap(false) && len(living) > 0 && !slices.Equal(living, p.living)
}

// resolveFormerMembers reads the Leases of shards that the history names and whose state is
// unknown. Proving such a shard dead takes 2D. If that began only when needed, an object without a
// record would wait that long, even an hour from now.
func (e *session) resolveFormerMembers(ctx context.Context) {
	for _, t := range e.history.Load().OwnerEpochs() {
		if ctx.Err() != nil {
			return
		}
		if e.leases.lifeOf(t) == protocol.EpochUnknown && e.leases.reread(ctx, t) == nil {
			// otherwise the next decision that needs it asks again
			e.leases.ask(t)
		}
	}
}
