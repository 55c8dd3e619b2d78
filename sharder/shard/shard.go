package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Config configures a [Shard].
type Config struct {
	// Resources are those of the ring, the same as its sharder's. Required. This process must run
	// an informer of each ([Shard.NewInformer]), because it cannot let go of objects that it does
	// not watch. Children need informers only if work reads them from a cache.
	Resources []api.Resource

	// Scheme has the kinds of typed objects. Default: client-go's, which has the kinds of
	// Kubernetes itself.
	Scheme *runtime.Scheme

	// AckGrace is how long work may continue on an object that must move to another shard. Then its
	// context ends, and the shard waits for work to return. Default: 10 s.
	AckGrace time.Duration

	// Quiet is how long the shard waits before it lets go of an object, after it has stopped admitting
	// work on it and the last work has ended. It is for work that goes on outside of Do, such as that
	// of a program whose requests alone pass through Do. Default: 0.
	Quiet time.Duration

	// Concurrency is how many objects of one informer the shard lets go of at a time. A quarter
	// more, at least one, may be objects whose requests hang. Default: 8.
	Concurrency int

	// Unguarded allows work although the lease guards no client, so that nothing stops what work
	// does after the lease is lost. It is for work that changes nothing through the Kubernetes API,
	// and for tests with client-go's fakes.
	Unguarded bool

	// Hooks are called when something happens, for metrics.
	Hooks Hooks

	// Logger receives returned objects at Info and failing requests at Warn. Nil: no logs.
	Logger *zap.Logger
}

// Hooks are functions that a [Shard] calls when something happens; each may be nil. They are called
// synchronously, from several goroutines, and must return quickly.
type Hooks struct {
	// OnDrained is called after each attempt to let go of an object. took is the time since the
	// drain was first seen. err is nil if the attempt succeeded.
	OnDrained func(object api.ObjectRef, took time.Duration, err error)
	// OnBounced is called after each attempt to send back an object that carries this shard's label
	// by mistake.
	OnBounced func(object api.ObjectRef, err error)
	// OnRefused is called with the reason why Do does not call work: an [ErrNotMine] or an
	// [ErrNotYet].
	OnRefused func(object api.ObjectRef, err error)
}

func (h Hooks) drained(at protocol.Address, took time.Duration, err error) {
	if h.OnDrained != nil {
		h.OnDrained(at.Ref(), took, err)
	}
}

func (h Hooks) bounced(at protocol.Address, err error) {
	if h.OnBounced != nil {
		h.OnBounced(at.Ref(), err)
	}
}

func (h Hooks) refused(at protocol.Address, err error) {
	if h.OnRefused != nil {
		h.OnRefused(at.Ref(), err)
	}
}

// Shard is this process's part of a ring: it follows its objects, decides when work on them may
// begin, and lets go of them. All controllers of the process share one. Its methods may be called
// at any time, from any goroutine. Its client must be allowed to list, watch and patch each
// resource.
//
// # How a process is composed
//
// The lease is outermost. Start controllers within its work function, and end them before it
// returns, because what still runs keeps the lease from being released. Start informers there as
// well, or before Run and for the life of the process, so that a term after a step-down begins with
// warm caches.
//
//   - When the lease is lost, the process ends by default (OnLost of package shardlease). When only
//     the sharder's election is lost, only the sharder stops, because its elector has an OnLost
//     that returns, and guards its clients.
//   - At the end of the process, work ends first, then the sharder, and then both leases are
//     released. Other shards then take the objects over at once, while without a release that takes
//     twice the duration of the lease. So a Pod's terminationGracePeriodSeconds should be longer
//     than the longest work plus ReleaseTimeout of package shardlease.
//   - A replica that waits for its lease runs no work function, so answer probes outside of it,
//     from the health checks of the lease and the elector.
//
// # In controller-runtime
//
// docs/embedding.md shows how to make an operator a shard with package replica;
// examples/controllerruntime is a complete one. In short:
//
// Call lease.Run(ctx, mgr.Start), with the manager's configuration guarded by the lease
// ([shardlease.Lease.WrapTransport]), and these options:
//
//	Cache: cache.Options{
//		NewInformer: shard.NewInformer,
//		ByObject: map[client.Object]cache.ByObject{
//			&corev1.ConfigMap{}: {Label: shard.Selector()},
//		},
//	},
//	GracefulShutdownTimeout: ptr.To(time.Duration(-1)),
//
// Without the last one, a manager gives up on busy workers after 30 s and returns an error, so the
// lease is not released, and the process ends. Wrap reconcilers with WrapReconciler of the module
// controllerruntime. A manager answers probes only while Start runs. Controllers that are not
// sharded belong in a second manager, under the elector beside the sharder, without NewInformer.
type Shard struct {
	metadata metadata.Interface
	lease    *shardlease.Lease
	config   Config
	keys     protocol.Keys
	kinds    kinds
	roots    map[schema.GroupVersionResource]*rootResource
	writable map[schema.GroupResource]bool // of roots and children
	tracker  workTracker
	caches   caches
	used     atomic.Bool // an informer of roots has begun: before, nothing can work on an object
	begins   func()      // called when that happens
	said     sync.Map    // the warnings of warnOnce, with their resources
	idleMu   sync.Mutex  // guards rootResource.idle
}

// rootResource is a resource of roots.
type rootResource struct {
	keys     protocol.Keys
	family   bool            // it has children
	selector labels.Selector // nil: all objects are selected
	asked    asked
	idle     idleness // guarded by Shard.idleMu
}

// New returns the shard whose heartbeat is this lease. It asks the API server, through mapper, for
// the kinds of the resources. The lease must guard client. One lease has one shard. The error joins
// one error for each rule that config breaks. A resource that is not served yet, such as a custom
// resource that is installed later, is an error only if no resource is served: [Shard.NewInformer]
// looks it up again.
func New(client metadata.Interface, mapper meta.RESTMapper, lease *shardlease.Lease, config Config) (*Shard, error) {
	var errs []error
	for _, required := range []struct {
		name    string
		missing bool
	}{{"client", client == nil}, {"mapper", mapper == nil}, {"lease", lease == nil}} {
		if required.missing {
			errs = append(errs, fmt.Errorf("shard: %s: must not be nil", required.name))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	config = config.withDefaults()
	s := &Shard{
		metadata: client, lease: lease, config: config, keys: protocol.KeysOf(lease.Ring()),
		roots: map[schema.GroupVersionResource]*rootResource{}, writable: map[schema.GroupResource]bool{},
	}
	if err := errors.Join(config.validate(s.keys)...); err != nil {
		return nil, err
	}
	resources, unknown, err := protocol.Resolve(mapper, config.Resources)
	switch {
	case err != nil:
		return nil, errors.Join(unknown, err)
	case len(resources) == 0:
		return nil, unknown
	case unknown != nil:
		config.Logger.Warn("objects of some resources are not worked on yet", zap.Error(unknown))
	}
	s.kinds = kinds{mapper: mapper, resources: config.Resources, known: map[schema.GroupKind]protocol.Role{}}
	_ = s.kinds.learn() // unknown ones are logged above
	for _, r := range config.Resources {
		root := &rootResource{keys: s.keys.Of(r.GVR.GroupResource()), family: len(r.Children) > 0}
		if r.Selector != nil && !r.Selector.Empty() {
			root.selector = r.Selector
		}
		s.roots[r.GVR] = root
		for _, written := range append([]schema.GroupVersionResource{r.GVR}, r.Children...) {
			s.writable[written.GroupResource()] = true
		}
	}
	lease.AddReleaseGate(s.end)
	lease.OnOutside(s.warnOfWrites)
	s.begins = lease.IdleWhile(func() bool { return !s.used.Load() })
	return s, nil
}

func (c Config) withDefaults() Config {
	if c.Scheme == nil {
		c.Scheme = scheme.Scheme
	}
	if c.AckGrace == 0 {
		c.AckGrace = 10 * time.Second
	}
	if c.Concurrency == 0 {
		c.Concurrency = 8
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

func (c Config) validate(n protocol.Keys) []error {
	errs := protocol.ValidateResources(c.Resources, n)
	if c.AckGrace < 0 {
		errs = append(errs, fmt.Errorf("shard: AckGrace: must be positive (got %v)", c.AckGrace))
	}
	if c.Quiet < 0 {
		errs = append(errs, fmt.Errorf("shard: Quiet: must not be negative (got %v)", c.Quiet))
	}
	if c.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("shard: Concurrency: must be positive (got %d)", c.Concurrency))
	}
	return errs
}

// Selector selects the objects that carry this shard's label, which are those that it may work on,
// with few exceptions. With others, it selects only objects that all of these select as well; pass
// a Resource's Selector here. Use it for lists and watches, and for the label selectors of a
// controller-runtime cache.
func (s *Shard) Selector(others ...labels.Selector) labels.Selector {
	selector := labels.SelectorFromSet(labels.Set{s.keys.Shard: s.lease.Identity()})
	for _, other := range others {
		if other == nil { // all
			continue
		}
		requirements, selectable := other.Requirements()
		if !selectable {
			return labels.Nothing()
		}
		selector = selector.Add(requirements...)
	}
	return selector
}

// Lease returns the shard's lease.
func (s *Shard) Lease() *shardlease.Lease { return s.lease }

// end is called before the lease is released. It stops admission and waits for work in flight.
func (s *Shard) end(ctx context.Context) error {
	term, _ := shardlease.TermFrom(ctx)
	s.tracker.close(term)
	return s.tracker.await(ctx)
}

// self returns this shard in a term, for roots of a resource.
func (s *Shard) self(term *shardlease.Term, resource schema.GroupVersionResource) protocol.Self {
	e := term.Epoch()
	return protocol.Self{
		Keys:       s.roots[resource].keys,
		OwnerEpoch: protocol.OwnerEpoch{Shard: s.lease.Identity(), LeaseUID: e.LeaseUID, Epoch: e.Number},
	}
}

// roleOf returns the role of an object's kind in the ring.
func (s *Shard) roleOf(o runtime.Object) (protocol.Role, error) {
	kind := o.GetObjectKind().GroupVersionKind().GroupKind()
	if kind.Kind == "" { // as for typed objects that client-go has decoded
		kinds, _, err := s.config.Scheme.ObjectKinds(o)
		if err != nil {
			return protocol.Role{}, fmt.Errorf("shard: the kind of a %T is unknown; is it in Config.Scheme? %w", o, err)
		}
		kind = kinds[0].GroupKind()
	}
	k, ok := s.kinds.of(kind)
	if !ok {
		return protocol.Role{}, fmt.Errorf("shard: objects of kind %s are not in Config.Resources", kind)
	}
	return k, nil
}

// warnOnce logs a warning that concerns all objects of a resource only once.
func (s *Shard) warnOnce(message string, resource schema.GroupResource, fields ...zap.Field) {
	if _, said := s.said.LoadOrStore([2]string{message, resource.String()}, true); !said {
		s.config.Logger.Warn(message, fields...)
	}
}

// wakeAcknowledger queues a root for another look at its drain.
func (s *Shard) wakeAcknowledger(at protocol.Address) {
	if term, err := s.lease.Term(); err == nil {
		for _, i := range s.caches.begun(term, at.Resource, at.Namespace) {
			i.queue.Add(at)
		}
	}
}
