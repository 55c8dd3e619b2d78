package sharder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/internal/membership"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// session is one run of a sharder. Its state ends with it, and the next session begins with the
// state of the API server.
type session struct {
	mapper    meta.RESTMapper
	objects   *objects
	planner   *membership.Planner
	collector *membership.Collector

	queue    *queue
	drains   *drains
	families *families
	feeder   *feeder   // of the queue, by watches
	scanner  *scanner  // also feeds the queue
	assigner *assigner // works on the queue

	version string // of the first list of Leases
	first   bool   // there was no sharder before
}

// open reads what a session needs to begin. With partly it may leave out resources.
func (s *Sharder) open(ctx context.Context, partly bool) (*session, error) {
	e, err := s.newSession(s.tracker, s.troubles)
	if err != nil {
		return nil, err
	}
	if unserved := e.objects.unserved; unserved != nil {
		if !partly || len(e.objects.roots) == 0 && !meta.IsNoMatchError(unserved) {
			return nil, unserved
		}
		s.config.Logger.Warn("objects of some resources are not distributed", zap.Error(unserved))
	}
	for _, r := range s.config.Resources {
		var missing error
		if !e.objects.serves(r.GVR) {
			missing = e.objects.unserved
		}
		s.troubles.note(troubledRequest{resourceTrouble{r.GVR, "", "serve"}, ""}, missing)
	}
	s.warnOfLimit()
	if err := e.objects.checkAccess(ctx); err != nil {
		return nil, fmt.Errorf("sharder: %w", err)
	}
	if e.version, err = e.planner.Shards.List(ctx); err != nil {
		return nil, fmt.Errorf("sharder: %w", err)
	}
	if e.first, err = e.planner.Load(ctx, e.objects.inUse); err != nil {
		return nil, fmt.Errorf("sharder: %w", err)
	}
	return e, nil
}

// newSession returns a session that has read nothing but the API server's resources.
func (s *Sharder) newSession(tracker *shardstate.Tracker, troubles *resourceTroubles) (*session, error) {
	c := s.config
	o, err := newObjects(c, s.meta, s.mapper, troubles)
	if err != nil {
		return nil, err
	}
	shards := membership.NewShards(s.membership(), tracker)
	planner := membership.NewPlanner(s.membership(), shards, c.Hooks.OnMembership)
	collector := &membership.Collector{
		Shards: shards, Patience: c.ScanInterval, Empty: o.withoutShard, Named: planner.Named,
		OnStorm: c.Hooks.OnStorm, OnTaken: c.Hooks.OnTaken, OnCollected: c.Hooks.OnCollected,
	}
	work := newQueue(4*max(c.PageSize, c.Concurrency), c.Concurrency)
	drained, kin := newDrains(c.MaxDrains), newFamilies()
	feed := &feeder{objects: o, planner: planner, queue: work, drains: drained}
	without := newUnowned(o)
	return &session{
		mapper: s.mapper, objects: o, planner: planner, collector: collector,
		queue: work, drains: drained, families: kin, feeder: feed,
		scanner: &scanner{
			objects: o, planner: planner, feeder: feed, queue: work, drains: drained, families: kin, unowned: without,
		},
		assigner: &assigner{
			objects: o, planner: planner, queue: work, drains: drained, families: kin,
			undone: newRepairs(o), unowned: without, suspects: newSuspects(o, shards),
		},
	}, nil
}

// errResourceServed means that the API server now serves a resource that the session left out.
var errResourceServed = errors.New("sharder: a resource is served that was not")

// run works until ctx ends, or until it cannot continue. It returns errResourceServed if a new
// session can serve more resources.
func (s *session) run(ctx context.Context) error {
	c := s.objects.config
	ctx, cancel := context.WithCancelCause(ctx)
	defer s.queue.drop() // after the last worker
	defer s.queue.watch(ctx)()
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	defer s.planner.Shards.WatchPods(ctx)()
	if s.objects.unserved != nil {
		all.Go(func() {
			for clock.Sleep(ctx, maxRescanDelay) {
				now, _, err := protocol.Resolve(s.mapper, c.Resources)
				more := func(r protocol.Resource) bool { return !s.objects.serves(r.GVR) }
				if err == nil && slices.ContainsFunc(now, more) {
					cancel(errResourceServed)
				}
			}
		})
	}
	mover := &familyMover{
		objects: s.objects, planner: s.planner, families: s.families, assigner: s.assigner,
		version: s.version, first: s.first,
	}
	all.Go(func() { s.planner.Shards.Run(ctx, s.version) })
	all.Go(func() { s.collector.Run(ctx) })
	all.Go(func() { s.drains.reportOverdue(ctx, s.objects) })
	all.Go(func() { s.assigner.unowned.report(ctx) })
	all.Go(func() { mover.run(ctx) })
	for n := range (1 + longPerPlace) * c.Concurrency {
		all.Go(func() { s.assigner.work(ctx, n < max(1, c.Concurrency/4)) })
	}
	s.feeder.begin(ctx, &all)
	if err := s.planner.Follow(ctx, s.serve); err != nil {
		return err
	}
	if errors.Is(context.Cause(ctx), errResourceServed) {
		return errResourceServed
	}
	return nil
}

// serve distributes objects by a plan until ctx ends.
func (s *session) serve(ctx context.Context, p *membership.Plan, news <-chan struct{}) {
	// A former member may return in the same epoch.
	s.families.prune(append(p.Members.Names(), s.planner.Shards.Names()...))
	s.scanner.settled.Store(false)
	var watches sync.WaitGroup
	defer watches.Wait()
	s.feeder.watchStrays(ctx, p, &watches)
	s.scanner.run(ctx, p, news)
}

func (s *session) status() Status {
	status := Status{
		Settled: s.scanner.settled.Load(), Draining: s.drains.len(), Waiting: s.queue.len(),
		Troubled: s.objects.troubles.resources(),
	}
	if p := s.planner.Current(); p != nil {
		status.Members = p.Members.Names()
	}
	return status
}
