package sharder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

// session is one run of a sharder. Its state ends with it, and the next session begins with the
// state of the API server.
type session struct {
	*Sharder
	resources []protocol.Resource // of roots
	unknown   error               // names the resources, if any, that the API server does not serve
	graph     protocol.ResourceGraph
	marks     []protocol.Keys // of each resource
	pages     []*pageSize     // of each resource
	leases    *shardLeases
	collector *leaseCollector
	queue     *queue
	moves     *moves
	floors    *childFloors
	outsiders atomic.Pointer[outsiders]
	drains    *drains
	unowned   unowned
	suspects  suspects
	repairs   repairs
	troubles  *resourceTroubles
	version   string // of the first list of Leases
	first     bool   // there was no sharder before

	store   *historyStore // used by followMembership, and by the scans under it
	history atomic.Pointer[protocol.History]
	plan    atomic.Pointer[plan] // nil without members

	changed  chan struct{} // the shards' Leases have changed
	unsettle chan struct{} // an object is displaced, and no worker is about to mend it
	progress chan struct{} // fewer objects wait or are drained than before
	settled  atomic.Bool
	outlived atomic.Bool // a new object waits for a plan without a member that does not renew its Lease

	throttle   throttle
	notes      notes
	ownersSaid sync.Map // keys: ownersSaid that were logged
}

// open reads what a session needs to begin. With partly it may leave out resources.
func (s *Sharder) open(ctx context.Context, partly bool) (*session, error) {
	e, err := s.newSession(s.tracker, s.troubles)
	if err != nil {
		return nil, err
	}
	if e.unknown != nil {
		if !partly || len(e.resources) == 0 && !meta.IsNoMatchError(e.unknown) {
			return nil, e.unknown
		}
		e.config.Logger.Warn("objects of some resources are not distributed", zap.Error(e.unknown))
	}
	for _, r := range e.config.Resources {
		var missing error
		if !e.serves(r.GVR) {
			missing = e.unknown
		}
		e.troubles.note(troubledRequest{resourceTrouble{r.GVR, "", "serve"}, ""}, missing)
	}
	s.warnOfLimit()
	if err := e.checkAccess(ctx); err != nil {
		return nil, fmt.Errorf("sharder: %w", err)
	}
	if e.version, err = e.leases.list(ctx); err != nil {
		return nil, fmt.Errorf("sharder: %w", err)
	}
	if err := e.recallHistory(ctx); err != nil {
		return nil, fmt.Errorf("sharder: %w", err)
	}
	return e, nil
}

// newSession returns a session that has read nothing but the API server's resources.
func (s *Sharder) newSession(tracker *shardstate.Tracker, troubles *resourceTroubles) (*session, error) {
	resources, unknown, err := protocol.Resolve(s.mapper, s.config.Resources)
	if err != nil {
		return nil, err
	}
	c := s.config
	e := &session{
		Sharder: s, resources: resources, unknown: unknown, graph: protocol.ResourceGraphOf(resources),
		moves: newMoves(), floors: newChildFloors(),
		queue: newQueue(4*max(c.PageSize, c.Concurrency), c.Concurrency), drains: newDrains(c.MaxDrains),
		unowned: unowned{objects: map[protocol.Ref]*vacancy{}}, repairs: repairs{objects: map[protocol.Ref]*repair{}},
		suspects: suspects{held: map[types.UID]suspect{}}, troubles: troubles,
		changed: make(chan struct{}, 1), unsettle: make(chan struct{}, 1), progress: make(chan struct{}, 1),
		throttle: throttle{hook: c.Hooks.OnThrottled, log: c.Logger},
	}
	for _, r := range e.graph.All {
		e.marks = append(e.marks, s.keys.Of(r.GVR.GroupResource()))
		e.pages = append(e.pages, newPageSize(c.PageSize))
	}
	e.history.Store(&protocol.History{})
	e.outsiders.Store(newOutsiders())
	e.leases = s.newShardLeases(tracker, func() { notify(e.changed) })
	e.store = &historyStore{
		kube: s.kube, namespace: c.Namespace, ring: c.Ring, over: func(t protocol.OwnerEpoch) bool {
			return e.leases.lifeOf(t) == protocol.EpochEnded
		},
	}
	e.collector = &leaseCollector{
		shardLeases: e.leases, kube: s.kube, duration: c.LeaseDuration, patience: c.ScanInterval, hooks: c.Hooks,
		empty: e.empty,
		named: func(shard string) bool { return e.history.Load().Names(shard) },
	}
	return e, nil
}

// recallHistory finds out under which memberships objects may have been assigned.
func (s *session) recallHistory(ctx context.Context) error {
	err := s.store.load(ctx)
	if err == nil || !errors.Is(err, errNoHistory) {
		return err
	}
	touched, scanErr := s.ringInUse(ctx)
	if scanErr != nil {
		return scanErr
	}
	if !touched {
		s.first = true
		return nil
	}
	// The history was lost: any living shard may work on any object.
	h := protocol.HistoryOf()
	for _, t := range s.leases.presentEpochs() {
		h = h.With(protocol.Membership{t})
	}
	s.store.assume(h)
	s.config.Logger.Warn("the ring's history is gone, though there are objects with owners: objects without a record "+
		"are taken from every shard in turn", zap.Error(err))
	return nil
}

// ringInUse reports whether an object carries a label or record of the ring. It also returns true
// if a resource cannot be listed somewhere.
func (s *session) ringInUse(ctx context.Context) (bool, error) {
	touched := s.unknown != nil
	listed := false
	var errs []error
	for i := range s.resources {
		for _, src := range s.sources(i, s.resources[i].Selector) {
			_, err := s.reported(src, "stray").pages(ctx, func(o *metav1.PartialObjectMetadata) bool {
				touched = touched || s.marks[i].CarriesMarks(o)
				return !touched
			})
			if touched {
				return true, nil
			}
			listed = listed || err == nil
			errs = append(errs, err)
		}
	}
	err := errors.Join(errs...)
	if !listed {
		return false, err
	}
	return err != nil, nil
}

// notify sends without blocking to a channel of capacity 1.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// serves reports whether the session distributes the objects of a resource.
func (s *session) serves(gvr schema.GroupVersionResource) bool {
	return slices.ContainsFunc(s.resources, func(r protocol.Resource) bool { return r.GVR == gvr })
}

// errResourceServed means that the API server now serves a resource that the session left out.
var errResourceServed = errors.New("sharder: a resource is served that was not")

// run works until ctx ends, or until it cannot continue. It returns errResourceServed if a new
// session can serve more resources.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer s.queue.watch(ctx)() // stopped after the last worker
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	defer s.leases.watchPods(ctx, s.kube, s.config.LeaseDuration)()
	if s.unknown != nil {
		all.Go(func() {
			for clock.Sleep(ctx, maxRescanDelay) {
				now, _, err := protocol.Resolve(s.mapper, s.config.Resources)
				if err == nil && slices.ContainsFunc(now, func(r protocol.Resource) bool { return !s.serves(r.GVR) }) {
					cancel(errResourceServed)
				}
			}
		})
	}
	all.Go(func() { s.leases.run(ctx, s.version) })
	all.Go(func() { s.collector.run(ctx) })
	all.Go(func() { s.releaseRetries(ctx) })
	all.Go(func() { s.reportOverdue(ctx) })
	all.Go(func() { s.reportUnowned(ctx) })
	all.Go(func() { s.moveFamilies(ctx) })
	for n := range (1 + longPerPlace) * s.config.Concurrency {
		all.Go(func() { s.work(ctx, n < max(1, s.config.Concurrency/4)) })
	}
	var counted sync.WaitGroup // the resources whose present drains were counted
	for i := range s.resources {
		for _, src := range s.sources(i, with(s.resources[i].Selector, s.keys.Drain, selection.Exists)) {
			counted.Add(1)
			once := sync.OnceFunc(counted.Done)
			all.Go(func() {
				defer once()
				s.watchDrains(ctx, i, s.reported(src, "drained"), once)
			})
		}
	}
	for i := len(s.resources); i < len(s.graph.All); i++ {
		for purpose, selector := range map[string]labels.Selector{
			"stray":  with(labels.Everything(), s.keys.Shard, selection.DoesNotExist),
			"misled": with(labels.Everything(), s.keys.Drain, selection.Exists),
		} {
			for _, src := range s.sources(i, selector) {
				all.Go(func() {
					s.reported(src, purpose).run(ctx, sink{
						found: func(o *metav1.PartialObjectMetadata) bool { return s.adoptChild(ctx, i, o) },
					})
				})
			}
		}
	}
	counted.Wait()
	if err := s.followMembership(ctx); err != nil {
		return err
	}
	if errors.Is(context.Cause(ctx), errResourceServed) {
		return errResourceServed
	}
	return nil
}

// sources returns the sources of a resource's objects, one for each namespace.
func (s *session) sources(index int, selector labels.Selector) []source {
	var all []source
	r := s.graph.All[index]
	for _, namespace := range r.WatchedNamespaces() {
		all = append(all, source{
			client: s.client(index, namespace), resource: r, namespace: namespace, selector: selector,
			page: s.pages[index], log: s.config.Logger,
		})
	}
	return all
}

// reported returns a source that records whether its requests succeed. They all have one purpose.
func (s *session) reported(from source, purpose string) source {
	from.outcome = func(verb string, err error) {
		s.troubles.note(troubledRequest{resourceTrouble{from.resource.GVR, from.namespace, verb}, purpose}, err)
	}
	return from
}

// place is where objects of a resource, by its index, are listed and watched: in a namespace, or in
// all if it is empty.
type place struct {
	resource  int
	namespace string
}

// placeOf returns the place of the objects of a resource that are in a namespace.
func (s *session) placeOf(resource int, namespace string) place {
	return place{resource, s.graph.All[resource].WatchedNamespace(namespace)}
}

func (s *session) client(index int, namespace string) metadata.ResourceInterface {
	client := s.meta.Resource(s.graph.All[index].GVR)
	if namespace == "" {
		return client
	}
	return client.Namespace(namespace)
}

// releaseRetries makes delayed items ready when they are due.
func (s *session) releaseRetries(ctx context.Context) {
	for ctx.Err() == nil {
		wait := time.Hour
		if due, ok := s.queue.next(time.Now()); ok {
			wait = time.Until(due)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.queue.later:
		}
		timer.Stop()
	}
}

// rootOf returns the Root of an object. ok is false if the object is not distributed.
func (s *session) rootOf(index int, o *metav1.PartialObjectMetadata) (v protocol.Root, ok bool) {
	r := s.resources[index]
	if o.Name == HistoryName(s.config.Ring) && o.Namespace == s.config.Namespace && r.Kind.Group == "" &&
		r.Kind.Kind == "ConfigMap" {
		return protocol.Root{}, false
	}
	return s.marks[index].RootOf(index, r, o), true
}

// watchDrains counts the objects that carry the drain label, and queues them. It calls counted when
// the present ones are counted, or cannot be, so that other resources do not wait for one that
// cannot be listed.
func (s *session) watchDrains(ctx context.Context, index int, src source, counted func()) {
	var listed map[protocol.Ref]bool // during a list
	src.run(ctx, sink{
		listing: func() { listed = map[protocol.Ref]bool{} },
		found: func(o *metav1.PartialObjectMetadata) bool {
			v, ok := s.rootOf(index, o)
			if !ok {
				return true
			}
			if listed != nil {
				listed[v.Ref] = true
			}
			s.drains.see(v.Ref, v.Label, time.Now())
			return s.enqueueIfNeeded(ctx, v)
		},
		left: func(o *metav1.PartialObjectMetadata) {
			s.drains.gone(protocol.Ref{Resource: index, Namespace: o.Namespace, Name: o.Name})
			notify(s.progress)
		},
		listed: func() {
			s.drains.relist(index, src.namespace, listed)
			listed = nil
			counted()
			notify(s.progress)
		},
		failed: counted,
	})
}

// enqueueIfNeeded queues an object if it needs work. It returns false if ctx has ended.
func (s *session) enqueueIfNeeded(ctx context.Context, v protocol.Root) bool {
	p := s.plan.Load()
	if p == nil {
		return ctx.Err() == nil // the lists of the next plan will find it
	}
	switch d := protocol.Decide(s.leases.situationOf(v, p)); d.Verb {
	case protocol.Keep, protocol.Await:
		return ctx.Err() == nil
	case protocol.Hold:
		s.hold(d)
		return ctx.Err() == nil
	}
	return s.queue.offer(ctx, v, nil, false)
}

// hold records that an object needs another decision when more is known.
func (s *session) hold(d protocol.Decision) {
	s.leases.ask(d.About)
	notify(s.unsettle)
}

// reportOverdue reports objects that their shards have not let go of in time.
func (s *session) reportOverdue(ctx context.Context) {
	for clock.Sleep(ctx, max(s.config.OverdueAfter/4, time.Second)) {
		for r, o := range s.drains.overdue(time.Now().Add(-s.config.OverdueAfter)) {
			object := s.objectRef(r)
			s.config.Logger.Warn("a shard does not let go of an object", zap.String("shard", o.shard),
				zap.Time("since", o.since),
				zap.Stringer("resource", object.GVR.GroupResource()), zap.String("namespace", r.Namespace),
				zap.String("name", r.Name))
			if s.config.Hooks.OnOverdue != nil {
				s.config.Hooks.OnOverdue(Overdue{object, o.shard, o.since})
			}
		}
	}
}

func (s *session) objectRef(r protocol.Ref) api.ObjectRef {
	return api.ObjectRef{GVR: s.graph.All[r.Resource].GVR, Namespace: r.Namespace, Name: r.Name}
}

// empty reports whether no object carries the label of a shard.
func (s *session) empty(ctx context.Context, shard string) (bool, error) {
	if s.unknown != nil {
		return false, s.unknown
	}
	for i := range s.graph.All {
		// The selector does not matter: an object that is no longer selected is still the shard's.
		for _, src := range s.sources(i, with(labels.Everything(), s.keys.Shard, selection.Equals, shard)) {
			found := false
			ours := func(*metav1.PartialObjectMetadata) bool { return true }
			if i < len(s.resources) {
				src.page = newPageSize(1)
			} else { // a child without a root keeps its label
				ours = func(o *metav1.PartialObjectMetadata) bool { _, ok := s.graph.ChildOf(i, o); return ok }
			}
			if _, err := src.pages(ctx, func(o *metav1.PartialObjectMetadata) bool {
				found = ours(o)
				return !found
			}); err != nil && !found {
				return false, err
			}
			if found {
				return false, nil
			}
		}
	}
	return true, nil
}

func (s *session) status() Status {
	status := Status{
		Settled: s.settled.Load(), Draining: s.drains.len(), Waiting: s.queue.len(), Troubled: s.troubles.resources(),
	}
	if p := s.plan.Load(); p != nil {
		status.Members = p.members.Names()
	}
	return status
}
