package shard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// NewInformer returns an informer of the objects of this shard. It has the signature of cache.NewSharedIndexInformer, and of
// controller-runtime's cache.Options.NewInformer. For an example whose kind is not in [ShardConfig].Resources it returns just what
// the former does.
//
// Work is done only on objects that such an informer shows, and only if it was started while the lease was held: within the work
// function of the lease. While it runs, the informer also lets go of objects that the sharder wants for other shards, and sends
// those back that carry the shard's label by mistake; each resource of the ring has to have one for that.
//
// While an informer of children exists, before it runs too, no work begins on their roots that it
// would show too old a state for: make none that is not run. Informers of one namespace each are
// better made by [Shard.NewInformerOf]: here, work in one namespace waits for those of all others,
// up to a minute for a bookmark of the API server, and for as long as one of them cannot list.
//
// Its first list is consistent: it asks the API server for the present state, by pages, not for what some cache of the server holds. If
// lw asks for no labels, the informer asks for those of [Shard.Selector]. What a transform removes of the ring's labels and
// annotation, and of UID and resourceVersion, is kept. client-go's feature gate AtomicFIFO should be on, as it is by default: without
// it a shard remembers every object that it has let go of, for the life of the process.
//
// That an object is not in the cache of a shard means that it was deleted or that it is another shard's now.
func (s *Shard) NewInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return s.NewInformerOf("", lw, example, resync, indexers)
}

// NewInformerOf is NewInformer for an lw that lists and watches one namespace; empty: all of them.
// Work on roots of other namespaces does not depend on what it shows.
func (s *Shard) NewInformerOf(
	namespace string, lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	k, err := s.roleOf(example)
	if err != nil { // or the API server knows the kind by now
		_ = s.kinds.learn() // others may not be known yet
		k, err = s.roleOf(example)
	}
	if err != nil {
		s.config.Logger.Info("an informer is not about objects of the ring", zap.Error(err))
		return cache.NewSharedIndexInformer(lw, example, resync, indexers)
	}
	i := &informer{shard: s, resource: k.Resource, namespace: namespace, child: k.Child}
	c := consistent{i, cache.ToListerWatcherWithContext(lw)}
	i.SharedIndexInformer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: c.list, WatchFuncWithContext: c.watch,
	}, lw), example, resync, indexers)
	if i.child { // now, or work could begin before the cache does
		s.caches.add(i)
	}
	return i
}

// ListerWatcher returns what an informer needs of a typed client, such as client.CoreV1().ConfigMaps(""); client is the clientset that
// this is of, which tells whether it is a fake.
func ListerWatcher[List runtime.Object](resource interface {
	List(context.Context, metav1.ListOptions) (List, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}, client any,
) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: resource.Watch,
	}, client)
}

// informer of a resource of the ring, with the workers that settle its objects.
type informer struct {
	cache.SharedIndexInformer
	shard     *Shard
	resource  schema.GroupVersionResource
	namespace string // whose objects it shows; empty: those of all, or of one that is not known
	child     bool   // its objects are children
	started   atomic.Bool
	queue     workqueue.TypedRateLimitingInterface[protocol.Address] // set before the informer is in shard.caches, and not changed after

	mu      sync.Mutex
	listed  bool             // guarded by mu: the first list has begun
	term    *shardlease.Term // guarded by mu: the one in which it did; nil if the lease was not held
	reached string           // guarded by mu: the greatest version up to which the store was seen to be complete
}

// covers reports whether the informer may show objects of a namespace; empty: of any.
func (i *informer) covers(namespace string) bool {
	return i.namespace == "" || namespace == "" || i.namespace == namespace
}

// Run implements cache.SharedInformer.
func (i *informer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext implements cache.SharedInformer.
func (i *informer) RunWithContext(ctx context.Context) {
	if !i.started.CompareAndSwap(false, true) {
		i.SharedIndexInformer.RunWithContext(ctx) // which complains
		return
	}
	if i.child {
		defer i.shard.caches.remove(i)
		var sweeping sync.WaitGroup
		defer sweeping.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		sweeping.Go(func() { i.returnMisplaced(ctx) })
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
	i.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[protocol.Address](50*time.Millisecond, 30*time.Second))
	i.shard.caches.add(i)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer i.queue.ShutDown()
	defer i.shard.caches.remove(i)
	for range i.shard.config.Concurrency {
		workers.Go(func() {
			for i.settleNext(ctx) {
			}
		})
	}
	i.SharedIndexInformer.RunWithContext(ctx)
}

// SetTransform implements cache.SharedInformer. Without the labels and the record, every object would be sent back to the sharder.
func (i *informer) SetTransform(transform cache.TransformFunc) error {
	if transform == nil {
		return i.SharedIndexInformer.SetTransform(nil)
	}
	if i.child {
		transform = preserveOwner(transform)
	}
	return i.SharedIndexInformer.SetTransform(preserveRecord(i.shard.keys.Of(i.resource.GroupResource()), transform))
}

// consider queues an object that was added or changed, if there is something to do about it.
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
		if i.shard.tracker.knows(at) {
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
		if at := protocol.AddressOf(i.resource, o); i.shard.tracker.knows(at) {
			i.queue.Add(at)
		}
	}
}

// settleNext settles one object, and reports whether there may be more.
func (i *informer) settleNext(ctx context.Context) bool {
	at, over := i.queue.Get()
	if over {
		return false
	}
	defer i.queue.Done(at)
	term := i.began()
	if term == nil || !i.shard.tracker.begin(at) {
		return true
	}
	again, err := i.shard.advanceDrain(ctx, term, at)
	if i.shard.tracker.finish(at) {
		i.shard.wakeAcknowledger(at)
	}
	if err != nil {
		level := zap.WarnLevel
		if apierrors.IsConflict(err) { // somebody has changed the object meanwhile, and the cache does not show it yet
			level = zap.DebugLevel
		}
		if ctx.Err() == nil {
			i.shard.config.Logger.Log(level, "an object could not be handed over; trying again", zap.Error(err), zap.Int("failures", i.queue.NumRequeues(at)+1))
		}
		i.queue.AddRateLimited(at)
		return true
	}
	i.queue.Forget(at)
	if again > 0 {
		i.queue.AddAfter(at, again)
	}
	return true
}

// begin notes the term in which the first list begins. If it fails and another follows in a later term, the cache does not count:
// that is simpler than to know which of them it was filled by.
func (i *informer) begin() {
	term, err := i.shard.lease.Term()
	i.mu.Lock()
	first := !i.listed
	if first {
		i.listed = true
		if err == nil {
			i.term = term
		}
	}
	i.mu.Unlock()
	switch {
	case !first:
	case err != nil:
		i.shard.config.Logger.Warn("an informer was started while the shard lease is not held: no work will be done on its objects",
			zap.String("resource", i.resource.GroupResource().String()), zap.Error(err))
	default:
		for _, at := range i.shard.tracker.unfinished(i.resource) { // left behind by an informer that has stopped
			i.queue.Add(at)
		}
	}
}

// began returns the term in which the first list began, nil if there is none.
func (i *informer) began() *shardlease.Term {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.term
}

// copyOf returns the cache's copy of an object, nil if it has none.
func (i *informer) copyOf(at protocol.Address) metav1.Object {
	key := cache.ObjectName{Namespace: at.Namespace, Name: at.Name}.String()
	item, exists, err := i.GetStore().GetByKey(key)
	if o, ok := item.(metav1.Object); ok && exists && err == nil && at.Of(o) {
		return o
	}
	return nil
}

// progress is a version up to which the cache shows everything, empty if none is known.
func (i *informer) progress() string {
	now := i.GetStore().LastStoreSyncResourceVersion() // not the informer's, which is ahead of the store
	i.mu.Lock()
	defer i.mu.Unlock()
	if protocol.Reaches(now, i.reached) {
		i.reached = now
	}
	return i.reached
}

// shows reports whether the cache would show an object that is of a version.
func (i *informer) shows(version string) bool {
	if version == "" { // client-go's fakes
		return i.HasSynced()
	}
	return protocol.Reaches(i.progress(), version)
}

// complete reports whether the cache shows all objects, as they were at a version or later. An empty version is that of the first list.
func (i *informer) complete(version string) bool {
	return i.HasSynced() && (version == "" || i.shows(version))
}

// consistent lists and watches for an informer. A reflector begins with a list from whatever some cache of the API server holds, which
// may be from before the lease was acquired.
type consistent struct {
	informer *informer
	source   cache.ListerWatcherWithContext
}

func (c consistent) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.Continue == "" {
		c.informer.begin()
	}
	return c.source.ListWithContext(ctx, c.adapt(options))
}

func (c consistent) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil && *options.SendInitialEvents { // it is a list, too
		c.informer.begin()
	}
	return c.source.WatchWithContext(ctx, c.adapt(options))
}

func (c consistent) adapt(options metav1.ListOptions) metav1.ListOptions {
	if options.ResourceVersion == "0" {
		options.ResourceVersion = ""
		if options.SendInitialEvents == nil {
			options.ResourceVersionMatch = "" // says nothing without a version, and is forbidden
		}
	}
	if options.LabelSelector == "" {
		options.LabelSelector = c.informer.shard.Selector().String()
	}
	return options
}
