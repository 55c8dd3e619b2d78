package sharder

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/sharder/internal/membership"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// feeder queues the objects that watches show and that need work.
type feeder struct {
	objects *objects
	planner *membership.Planner
	queue   *queue
	drains  *drains

	ownersSaid sync.Map // keys: ownersSaid that were logged
}

// begin begins the watches of the drained objects, and of the children that are with no shard or with
// another than their root. It waits until the present drains are counted.
func (f *feeder) begin(ctx context.Context, watches *sync.WaitGroup) {
	o := f.objects
	var counted sync.WaitGroup
	for i, r := range o.roots {
		drained := with(r.Selector, o.keys.Drain, selection.Exists)
		for _, src := range o.reported(o.sources(i, drained), "drained") {
			counted.Add(1)
			once := sync.OnceFunc(counted.Done)
			watches.Go(func() {
				defer once()
				f.watchDrains(ctx, i, src, once)
			})
		}
	}
	for i := len(o.roots); i < len(o.graph.All); i++ {
		for purpose, selector := range map[string]labels.Selector{
			"stray":  with(labels.Everything(), o.keys.Shard, selection.DoesNotExist),
			"misled": with(labels.Everything(), o.keys.Drain, selection.Exists),
		} {
			for _, src := range o.reported(o.sources(i, selector), purpose) {
				watches.Go(func() {
					src.run(ctx, sink{
						found: func(object *metav1.PartialObjectMetadata) bool { return f.offerChild(ctx, i, object) },
					})
				})
			}
		}
	}
	counted.Wait()
}

// watchStrays begins the watches of the objects that are with no member of a plan. It waits until
// they are listed.
func (f *feeder) watchStrays(ctx context.Context, p *membership.Plan, watches *sync.WaitGroup) {
	o := f.objects
	var listed sync.WaitGroup
	for i, r := range o.roots {
		selector := r.Selector
		if !o.config.WatchAll {
			selector = strays(p.Members, o.keys, r.Selector)
		}
		for _, src := range o.reported(o.sources(i, selector), "stray") {
			listed.Add(1)
			once := sync.OnceFunc(listed.Done)
			watches.Go(func() {
				defer once()
				src.run(ctx, sink{
					found: func(object *metav1.PartialObjectMetadata) bool {
						v, ok := o.rootOf(i, object)
						return !ok || f.offerRoot(ctx, v)
					},
					listed: once, failed: once, // other resources do not wait for one that cannot be listed
				})
			})
		}
	}
	listed.Wait()
}

// watchDrains counts the objects that carry the drain label, and queues them. It calls counted when
// the present ones are counted, or cannot be, so that other resources do not wait for one that
// cannot be listed.
func (f *feeder) watchDrains(ctx context.Context, index int, src source, counted func()) {
	var listed map[protocol.Ref]bool // during a list
	src.run(ctx, sink{
		listing: func() { listed = map[protocol.Ref]bool{} },
		found: func(object *metav1.PartialObjectMetadata) bool {
			v, ok := f.objects.rootOf(index, object)
			if !ok {
				return true
			}
			if listed != nil {
				listed[v.Ref] = true
			}
			f.drains.see(v.Ref, v.Label, time.Now())
			return f.offerRoot(ctx, v)
		},
		left: func(object *metav1.PartialObjectMetadata) {
			f.drains.gone(protocol.Ref{Resource: index, Namespace: object.Namespace, Name: object.Name})
			notify(f.queue.progress)
		},
		listed: func() {
			f.drains.relist(index, src.namespace, listed)
			listed = nil
			counted()
			notify(f.queue.progress)
		},
		failed: counted,
	})
}

// offerRoot queues a root if it needs work. It returns false if ctx has ended.
func (f *feeder) offerRoot(ctx context.Context, v protocol.Root) bool {
	p := f.planner.Current()
	if p == nil {
		return ctx.Err() == nil // the lists of the next plan will find it
	}
	switch d := protocol.Decide(f.planner.Shards.SituationOf(v, p)); d.Verb {
	case protocol.Keep, protocol.Await:
		return ctx.Err() == nil
	case protocol.Hold: // it needs another decision when more is known
		f.planner.Shards.Ask(d.About)
		notify(f.queue.unsettled)
		return ctx.Err() == nil
	}
	return f.queue.offer(ctx, v, nil, false)
}

// offerChild queues a child. It returns false if ctx has ended.
func (f *feeder) offerChild(ctx context.Context, index int, object *metav1.PartialObjectMetadata) bool {
	f.warnOfOwners(index, object)
	if c, ok := f.objects.childOf(index, object); ok {
		return f.queue.offer(ctx, c, nil, false)
	}
	return ctx.Err() == nil
}

// ownersSaid is a warning of [feeder.warnOfOwners].
type ownersSaid struct {
	resource int
	several  bool
}

// warnOfOwners warns, once for a resource, of objects that have owners in the ring but no
// controller.
func (f *feeder) warnOfOwners(index int, object *metav1.PartialObjectMetadata) {
	root, n := f.objects.graph.RootRefOf(index, object)
	if n == 0 || ptr.Deref(root.Controller, false) {
		return
	}
	message := protocol.Uncontrolled
	if n > 1 {
		message = "objects have several owners in the ring, and no owner reference with controller: true: they are " +
			"children of no root, and no shard sees them"
	}
	if _, said := f.ownersSaid.LoadOrStore(ownersSaid{index, n > 1}, true); !said {
		f.objects.log(protocol.Ref{Resource: index, Namespace: object.Namespace, Name: object.Name}).Warn(message,
			zap.String("owner", root.Kind.String()+" "+root.Name))
	}
}
