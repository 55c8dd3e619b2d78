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
func (s *session) followMembership(ctx context.Context) error {
	pause := minPause
	var refused time.Time // since when
	for ctx.Err() == nil {
		m, wait := s.leases.membership()
		if len(m) == 0 {
			if s.plan.Swap(nil) != nil {
				s.config.Logger.Warn("there is no shard left: objects wait for one")
				s.announce(nil)
			}
			s.await(ctx, wait)
			continue
		}
		p, err := s.adoptMembership(ctx, m)
		if err == nil {
			pause, refused = minPause, time.Time{}
			s.serveMembership(ctx, p)
			continue
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case !kube.Forbidden(err):
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		case time.Since(refused) >= s.config.LeaseDuration:
			return fmt.Errorf("sharder: %w", err)
		}
		s.config.Logger.Log(warning(ctx, err), "a new membership could not be stored, retrying",
			zap.Error(err))
		clock.Sleep(ctx, pause)
		pause = min(2*pause, maxPause)
	}
	return nil
}

// await waits until the shards' Leases have changed, and reports whether they have. It waits for at
// most wait, or without limit if wait is zero.
func (s *session) await(ctx context.Context, wait time.Duration) (changed bool) {
	if wait <= 0 {
		wait = time.Hour
	}
	timer := s.config.clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-s.changed:
		return true
	}
	return false
}

// adoptMembership returns the plan for a membership, once the ring's history contains it. The
// history then contains the membership without those that do not renew their Leases as well, so
// that new objects can be assigned among the others.
func (s *session) adoptMembership(ctx context.Context, m protocol.Membership) (*plan, error) {
	living := s.leases.renewing(m)
	if len(living) > 0 && len(living) < len(m) {
		if err := s.store.begin(ctx, living); err != nil {
			return nil, err
		}
	}
	if err := s.store.begin(ctx, m); err != nil {
		return nil, err
	}
	p, err := s.replan(m, living)
	if err != nil {
		return nil, err
	}
	kept := map[string]bool{} // a former member may return in the same epoch
	for _, shard := range append(m.Names(), s.leases.known()...) {
		kept[shard] = true
	}
	s.floors.prune(kept)
	s.settled.Store(false)
	s.config.Logger.Info("the members of the ring have changed", zap.Strings("members", m.Names()))
	s.announce(m.Names())
	return p, nil
}

// replan returns the plan for a membership, with all that is known of those before.
func (s *session) replan(m, living protocol.Membership) (*plan, error) {
	h := s.store.known.With(m)
	p, err := newPlan(h, ring.WithTokens(s.config.TokensPerShard))
	if err != nil {
		return nil, err
	}
	p.living = living
	s.history.Store(&h)
	s.plan.Store(p)
	return p, nil
}

func (s *session) announce(members []string) {
	if s.config.Hooks.OnMembership != nil {
		s.config.Hooks.OnMembership(members)
	}
}

// serveMembership distributes objects by a plan until the membership changes.
func (s *session) serveMembership(ctx context.Context, p *plan) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var listed sync.WaitGroup
	for i, r := range s.resources {
		selector := r.Selector
		if !s.config.WatchAll {
			selector = p.strays(s.keys, r.Selector)
		}
		for _, src := range s.sources(i, selector) {
			listed.Add(1)
			once := sync.OnceFunc(listed.Done)
			all.Go(func() {
				defer once()
				s.reported(src, "stray").run(ctx, sink{
					found: func(o *metav1.PartialObjectMetadata) bool {
						v, ok := s.rootOf(i, o)
						return !ok || s.enqueueIfNeeded(ctx, v)
					},
					listed: once, failed: once, // other resources do not wait for one that cannot be listed
				})
			})
		}
	}
	all.Go(func() { s.resolveFormerMembers(ctx) })
	news := make(chan struct{}, 1)
	all.Go(func() {
		listed.Wait()
		s.keepScanning(ctx, p, news)
	})
	for ctx.Err() == nil {
		m, wait := s.leases.membership()
		if !slices.Equal(m, p.members) || s.planIsOutlived(p) {
			return
		}
		if s.await(ctx, wait) || s.leases.matured() {
			notify(news)
		}
	}
}

// planIsOutlived reports whether a new object waits for another plan because a member does not renew its
// Lease any more, or all members of a plan that was made for such a case renew theirs again.
func (s *session) planIsOutlived(p *plan) bool {
	living := s.leases.renewing(p.members)
	if len(living) == len(p.members) {
		return len(p.living) > 0 && len(p.living) < len(p.members)
	}
	return s.outlived.Swap(false) && len(living) > 0 && !slices.Equal(living, p.living)
}

// resolveFormerMembers reads the Leases of shards that the history names and whose state is
// unknown. Proving such a shard dead takes 2D. If that began only when needed, an object without a
// record would wait that long, even an hour from now.
func (s *session) resolveFormerMembers(ctx context.Context) {
	for _, t := range s.history.Load().OwnerEpochs() {
		if ctx.Err() != nil {
			return
		}
		if s.leases.lifeOf(t) == protocol.EpochUnknown && s.leases.reread(ctx, t) == nil {
			// otherwise the next decision that needs it asks again
			s.leases.ask(t)
		}
	}
}
