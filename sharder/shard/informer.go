package shard

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/bellwether-k8s/bellwether/fresh"
	"github.com/bellwether-k8s/bellwether/internal/handover"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// NewInformer returns an informer of the objects of this shard. It has the signature of
// cache.NewSharedIndexInformer, and of controller-runtime's cache.Options.NewInformer. For an
// example whose kind is not in [Config].Resources it returns the result of
// cache.NewSharedIndexInformer.
//
// Work is done only on objects that such an informer shows. Start it within the work function of
// the lease, or once for the life of the process, so that its cache stays when a term ends, and a
// new term costs only a list of one object and a watch of up to 3 s. If the cache has not caught up
// after 30 s, as when its watch hangs, the informer lists again, and a list without an answer is
// sent again after 2 min. Outside of a term, an informer that has to list again does so 10 s to 6
// min later, or when a term begins (see [fresh.Relister]). While it runs and the lease is held, the
// informer also lets go of objects that must move to other shards, and sends back those that carry
// the shard's label by mistake, so each resource of the ring must have one.
//
// From the moment an informer of children exists, even before it runs, no work begins on roots
// whose children it would not show up to date, so do not make one that you do not run. For
// informers of one namespace each, use [Shard.NewInformerOf]. With NewInformer, work in one
// namespace waits for the informers of all others: up to a minute for a bookmark of the API server,
// and for as long as one of them cannot list.
//
// Its first list is consistent: it asks for the present state, by pages, and not for what a cache
// of the API server holds. If lw sets no label selector, the informer uses [Shard.Selector]. A
// transform cannot remove the ring's labels and annotations, the UID or the resourceVersion, and if
// it returns nil, the object stays in the cache as it is. Leave client-go's feature gate AtomicFIFO
// on, as it is by default: without it, a shard remembers every object that it has let go of, for
// the life of the process.
//
// An object that leaves the cache of a shard was deleted, or now belongs to another shard.
func (s *Shard) NewInformer(
	lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	return s.NewInformerOf("", lw, example, resync, indexers)
}

// NewInformerOf is NewInformer for an lw that lists and watches one namespace, or all if it is
// empty. Work on roots of other namespaces does not depend on what the informer shows.
func (s *Shard) NewInformerOf(
	namespace string, lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	k, err := s.roleOf(example)
	if err != nil { // the API server may serve the kind by now
		_ = s.kinds.learn() // others may still be unknown
		k, err = s.roleOf(example)
	}
	if err != nil {
		s.config.Logger.Info("an informer of a resource outside of the ring: it shows all objects",
			zap.String("why", err.Error()))
		return cache.NewSharedIndexInformer(lw, example, resync, indexers)
	}
	i := &informer{
		shard: s, resource: k.Resource, namespace: namespace, child: k.Child, first: make(chan struct{}),
		joined: make(chan struct{}),
	}
	i.source = fresh.NewRelister(s.selected(cache.ToListerWatcherWithContext(lw)))
	i.SharedIndexInformer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: i.list, WatchFuncWithContext: i.watch,
	}, lw), example, resync, indexers)
	if i.child { // now, so that no work begins before the cache does
		s.caches.add(i)
	}
	return i
}

// ListerWatcher returns a lister and watcher for an informer, made from a typed client such as
// client.CoreV1().ConfigMaps(""). client is the clientset of that client, which shows whether it is
// a fake.
func ListerWatcher[List runtime.Object](resource interface {
	List(context.Context, metav1.ListOptions) (List, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}, client any,
) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(fresh.Source(resource), client)
}

// listTimeout bounds a list of an informer, or a page of it. An API server gives up sooner.
const listTimeout = 2 * time.Minute

// informer shows the objects of a resource of the ring. Its workers advance their drains.
type informer struct {
	cache.SharedIndexInformer
	shard     *Shard
	resource  schema.GroupVersionResource
	namespace string          // whose objects it shows; empty if all, or unknown
	child     bool            // its objects are children
	source    *fresh.Relister // lists and watches what the informer shows
	started   atomic.Bool
	first     chan struct{} // closed when the first list begins
	queue     addressQueue  // set before the informer is in shard.caches
	hanging   addressQueue  // of objects that are in hung; set with queue

	said sync.Map // keys: the objects about which a warning was logged
	hung sync.Map // keys: the objects whose last attempt failed after protocol.HangsAfter or more

	mu      sync.Mutex
	listed  bool             // guarded by mu: the first list has begun
	term    *shardlease.Term // guarded by mu: the latest in which the cache counts; nil if none
	joined  chan struct{}    // guarded by mu: closed when it counts in the next term
	reached string           // guarded by mu: the greatest version to which the store was complete
}

type addressQueue = workqueue.TypedRateLimitingInterface[protocol.Address]

// covers reports whether the informer may show objects of a namespace, or of any if it is empty.
func (i *informer) covers(namespace string) bool {
	return i.namespace == "" || namespace == "" || i.namespace == namespace
}

// Run implements cache.SharedInformer.
func (i *informer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext implements cache.SharedInformer.
func (i *informer) RunWithContext(ctx context.Context) {
	if !i.start() {
		i.shard.config.Logger.Warn("an informer that runs, or has run, cannot run once more")
		return
	}
	i.run(ctx)
}

// start reports whether the caller must run the informer, because no one else does or has done so.
func (i *informer) start() bool { return i.started.CompareAndSwap(false, true) }

func (i *informer) run(ctx context.Context) {
	var beside sync.WaitGroup
	defer beside.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer i.shard.caches.remove(i)
	if i.child {
		beside.Go(func() { i.follow(ctx) })
		beside.Go(func() { i.returnMisplaced(ctx) })
		i.SharedIndexInformer.RunWithContext(ctx)
		return
	}
	if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    i.consider,
		UpdateFunc: func(_, o any) { i.consider(o) },
		DeleteFunc: i.considerGone,
	}); err != nil { // impossible before it has stopped
		i.shard.config.Logger.Error("no objects will be handed over", zap.Error(err))
	}
	pauses := workqueue.NewTypedItemExponentialFailureRateLimiter[protocol.Address](50*time.Millisecond, 30*time.Second)
	i.queue, i.hanging = workqueue.NewTypedRateLimitingQueue(pauses), workqueue.NewTypedRateLimitingQueue(pauses)
	defer i.queue.ShutDown()
	defer i.hanging.ShutDown()
	i.shard.caches.add(i)
	if !i.shard.used.Swap(true) {
		i.shard.begins()
	}
	beside.Go(func() { i.follow(ctx) })
	work := func(queue addressQueue, workers int) {
		for range workers {
			beside.Go(func() {
				for i.settleNext(ctx, queue) {
				}
			})
		}
	}
	work(i.queue, i.shard.config.Concurrency)
	work(i.hanging, max(1, i.shard.config.Concurrency/4))
	beside.Go(func() { i.warnIfUnasked(ctx) })
	i.SharedIndexInformer.RunWithContext(ctx)
}

// Source lists and watches what the informer shows: the ListerWatcher that it was made from, with the
// shard's selector. Module controllerruntime asks for it.
func (i *informer) Source() cache.ListerWatcher { return i.source }

// SetTransform implements cache.SharedInformer. The transform keeps the ring's labels and record,
// without which every object would be sent back to the sharder.
func (i *informer) SetTransform(transform cache.TransformFunc) error {
	if transform == nil {
		return i.SharedIndexInformer.SetTransform(nil)
	}
	var selector labels.Selector
	if i.child {
		transform = preserveOwner(transform)
	} else {
		selector = i.shard.roots[i.resource].selector
	}
	keys := i.shard.keys.Of(i.resource.GroupResource())
	return i.SharedIndexInformer.SetTransform(preserveRecord(keys, selector, transform))
}

// consider queues an object that was added or changed, if it needs a step.
func (i *informer) consider(obj any) {
	o, ok := obj.(metav1.Object)
	term := i.began()
	if !ok || term == nil {
		return
	}
	at := protocol.AddressOf(i.resource, o)
	switch i.shard.self(term, i.resource).AssignmentOf(o) {
	case protocol.AssignedDraining, protocol.AssignedUnrecorded:
		i.queue.Add(at)
	default:
		if i.shard.tracker.knows(at) || !i.shard.selects(i.resource, o) {
			i.queue.Add(at)
		}
	}
}

// considerGone queues an object that has left the cache.
func (i *informer) considerGone(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if o, ok := obj.(metav1.Object); ok {
		at := protocol.AddressOf(i.resource, o)
		if i.shard.tracker.knows(at) || i.shard.roots[i.resource].selector != nil {
			i.queue.Add(at)
		}
	}
}

// settleNext advances the drain of one object of a queue, and reports whether there may be more.
// Between terms it does nothing, because in the next one all objects are considered again.
func (i *informer) settleNext(ctx context.Context, queue addressQueue) bool {
	at, over := queue.Get()
	if over {
		return false
	}
	defer queue.Done(at)
	if _, hung := i.hung.Load(at); hung && queue != i.hanging {
		i.hanging.Add(at)
		return true
	}
	ctx, term, end := i.inTerm(ctx)
	defer end()
	if term == nil || !i.shard.tracker.begin(at) {
		return true
	}
	began := time.Now()
	again, err := i.shard.advanceDrain(ctx, term, at)
	if i.shard.tracker.finish(at) {
		i.shard.wakeAcknowledger(at)
	}
	if err != nil {
		if ctx.Err() == nil {
			_, said := i.said.Load(at)
			level := warning(ctx, err, said)
			if level == zap.WarnLevel {
				i.said.Store(at, true)
			}
			i.shard.config.Logger.Log(level, "an object could not be handed over, retrying",
				zap.Error(err), zap.Int("failures", i.queue.NumRequeues(at)+1))
		}
		if time.Since(began) < protocol.HangsAfter {
			i.hung.Delete(at)
			i.queue.AddRateLimited(at)
		} else {
			i.hung.Store(at, true)
			i.hanging.AddRateLimited(at)
		}
		return true
	}
	i.queue.Forget(at)
	i.said.Delete(at)
	i.hung.Delete(at)
	if again > 0 {
		i.queue.AddAfter(at, again)
	}
	return true
}

// warning returns the level of a line about a failed request for an object: warning, once for each
// object, but not after a conflict, as the cache does not show the changed object yet, nor for a
// missing right, which is logged for all objects together.
func warning(ctx context.Context, err error, said bool) zapcore.Level {
	refused := kube.RoleOf(ctx).Refused(err)
	if said || refused || apierrors.IsConflict(err) && kube.Stated(err) {
		return zap.DebugLevel
	}
	return zap.WarnLevel
}

// begin records the term in which the first list begins. If that list fails and another follows in
// a later term, which of the two has filled the cache is unknown, so it must catch up.
func (i *informer) begin() {
	term, err := i.shard.lease.Term()
	i.mu.Lock()
	first := !i.listed
	i.listed = true
	i.mu.Unlock()
	if !first {
		return
	}
	if err == nil {
		i.count(term)
	}
	close(i.first)
}

// copyOf returns the cached copy of an object, or nil if the cache has none.
func (i *informer) copyOf(at protocol.Address) metav1.Object {
	key := cache.ObjectName{Namespace: at.Namespace, Name: at.Name}.String()
	item, exists, err := i.GetStore().GetByKey(key)
	if o, ok := item.(metav1.Object); ok && exists && err == nil && at.Of(o) {
		return o
	}
	return nil
}

// progress returns a version up to which the cache is complete, or "" if none is known.
func (i *informer) progress() string {
	now := i.GetStore().LastStoreSyncResourceVersion() // not the informer's, which is ahead of the store
	i.mu.Lock()
	defer i.mu.Unlock()
	if protocol.Reaches(now, i.reached) {
		i.reached = now
	}
	return i.reached
}

// shows reports whether the cache would show an object of this version.
func (i *informer) shows(version string) bool {
	if version == "" { // client-go's fakes
		return i.HasSynced()
	}
	return protocol.Reaches(i.progress(), version)
}

// mayShowDeleted reports whether the cache shows children that a root may no longer have. At the
// version childless, unless that is empty, it had no children.
func (i *informer) mayShowDeleted(root types.UID, childless string) bool {
	if childless == "" || i.shows(childless) {
		return false
	}
	return slices.ContainsFunc(i.GetStore().List(), func(item any) bool {
		o, ok := item.(metav1.Object)
		if !ok {
			return false
		}
		_, of, err := i.shard.rootOf(i.resource, o)
		return err == nil && of.UID == root
	})
}

// complete reports whether the cache shows all objects as of this version or later. An empty
// version is that of the first list.
func (i *informer) complete(version string) bool {
	return i.HasSynced() && (version == "" || i.shows(version))
}

// list is a request of the informer.
func (i *informer) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.Continue == "" {
		i.begin()
	}
	list, err := i.source.ListWithContext(i.present(ctx), o)
	return list, kube.Versioned(list, err) // or the cache would be empty
}

// watch is a request of the informer.
func (i *informer) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil && *o.SendInitialEvents { // this is a list too
		i.begin()
	}
	return i.source.WatchWithContext(i.present(ctx), o)
}

// present returns the context of a request, which belongs to the present term, if any: the informer
// then lists at once. The first term does not wait for the cache, which would end the hold as well.
func (i *informer) present(ctx context.Context) context.Context {
	term, err := i.shard.lease.Term()
	if err != nil {
		return ctx
	}
	inTerm, scope := term.Scope(ctx)
	defer scope.End() // a watch outlives the term
	over, _ := handover.TermOf(inTerm)
	return handover.WithTerm(ctx, over)
}

// selected lists and watches those objects of source that are of this shard. Lists are consistent: a
// reflector begins with one from a cache of the API server, which may be older than the lease.
func (s *Shard) selected(source cache.ListerWatcherWithContext) cache.ListerWatcher {
	adapt := func(o metav1.ListOptions) metav1.ListOptions {
		if o.ResourceVersion == "0" {
			o.ResourceVersion = ""
			if o.SendInitialEvents == nil {
				o.ResourceVersionMatch = "" // forbidden without a version
			}
		}
		if o.LabelSelector == "" {
			o.LabelSelector = s.Selector().String()
		}
		return o
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, listTimeout)
			defer cancel()
			return source.ListWithContext(ctx, adapt(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return source.WatchWithContext(ctx, adapt(o))
		},
	}
}
