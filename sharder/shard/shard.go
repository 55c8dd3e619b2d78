package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// Config of a [Shard].
type Config struct {
	// Resources of the ring: the same ones that its sharder has. Required. This process has to run an informer of each
	// ([Shard.NewInformer]): what it does not watch, it does not let go of. Of Children it needs informers only where its work reads
	// them from a cache.
	Resources []api.Resource

	// Scheme knows the kinds of typed objects. Default: client-go's, which knows those of Kubernetes itself.
	Scheme *runtime.Scheme

	// AckGrace is how long work may go on, undisturbed, on an object that another shard is to have. After that its context ends, and the
	// shard waits for work to return. Default: 10 s.
	AckGrace time.Duration

	// Concurrency is how many objects of one informer are let go of at a time. Default: 8.
	Concurrency int

	// Unguarded allows work although no client is guarded by the lease. For work that changes nothing through the Kubernetes API, and for
	// tests with client-go's fakes: whatever else it does after the lease was lost, nobody stops.
	Unguarded bool

	// Hooks are told what happens, for metrics.
	Hooks Hooks

	// Logger gets objects that are sent back at Info, failing requests at Warn. Nil: no logs.
	Logger *zap.Logger
}

// Hooks are functions that a [Shard] calls when something happens; each may be nil. They are called synchronously, from several
// goroutines, and have to return quickly.
type Hooks struct {
	// OnDrained is told of each attempt to let go of an object, and how long after it was asked for that was. err is nil if it succeeded.
	OnDrained func(object api.ObjectRef, took time.Duration, err error)
	// OnBounced is told of each attempt to send back an object that carries the label of this shard by mistake.
	OnBounced func(object api.ObjectRef, err error)
	// OnRefused is told why Do does not call work: an [ErrNotMine] or an [ErrNotYet].
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

// Shard is this process's part of a ring: which objects are its own, when it may work on them, and how it lets go of them. All
// controllers of the process share one. Its methods may be called at any time, from any goroutine. Its client needs to be allowed to
// list, watch and patch each resource.
//
// # How a process is composed
//
// The lease is outermost. Within its work function, informers and controllers are started, and have ended when it returns: what has not
// keeps the lease from being released.
//
//   - When the lease is lost the process ends: that is the default of OnLost of package shardlease. When only the sharder's election is
//     lost, only the sharder stops: its elector has an OnLost that returns, and its clients are guarded by the elector.
//   - At the end of the process, work ends first, then the sharder, and then both leases are released. Objects are then with others at
//     once; without a release that takes twice the duration of the lease. So a Pod's terminationGracePeriodSeconds should be
//     longer than the longest work and ReleaseTimeout of package shardlease.
//   - A replica that waits for its lease runs no work function, so probes have to be answered outside of it, from the health checks of
//     lease and elector.
//
// # In controller-runtime
//
// docs/embedding.md says how to make an operator a shard, with what package replica makes; examples/controllerruntime is a whole one. What it
// comes to:
//
// Call lease.Run(ctx, mgr.Start), with the manager's configuration guarded by the lease ([shardlease.Lease.WrapTransport]), and these options:
//
//	Cache: cache.Options{
//		NewInformer: shard.NewInformer,
//		ByObject:    map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: shard.Selector()}},
//	},
//	GracefulShutdownTimeout: ptr.To(time.Duration(-1)),
//
// Without the last one a manager gives up on workers after 30 s, and returns an error while they are at work: the lease is then not released, and
// the process ends. Reconcilers are wrapped with [Guarded]. A manager answers probes only while Start runs. Controllers that
// are not sharded belong into a second manager, under the elector beside the sharder, without NewInformer.
type Shard struct {
	metadata metadata.Interface
	lease    *shardlease.Lease
	config   Config
	keys     protocol.Keys
	kinds    kinds
	marks    map[schema.GroupVersionResource]protocol.Keys // of resources of roots
	families map[schema.GroupVersionResource]bool          // resources that have children
	tracker  workTracker
	caches   caches
	// cacheless are the resources of which was said that no cache is one of NewInformer.
	cacheless sync.Map
}

// New returns the shard that a lease is the heartbeat of. It asks the API server, by way of mapper, for the kinds of the resources.
// client has to be guarded by the lease. One lease has one shard. The error joins one error for every rule that config breaks.
// A resource that is not served yet, such as a custom resource that is installed later, is no error
// unless all are: it is known when [Shard.NewInformer] is called for it.
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
	s := &Shard{metadata: client, lease: lease, config: config, keys: protocol.KeysOf(lease.Ring()), marks: map[schema.GroupVersionResource]protocol.Keys{}, families: map[schema.GroupVersionResource]bool{}}
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
	_ = s.kinds.learn() // what is unknown was said above
	for _, r := range config.Resources {
		s.marks[r.GVR] = s.keys.Of(r.GVR.GroupResource())
		s.families[r.GVR] = len(r.Children) > 0
	}
	lease.Await(s.end)
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
	if c.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("shard: Concurrency: must be positive (got %d)", c.Concurrency))
	}
	return errs
}

// Selector selects the objects that carry the label of this shard: those that it may work on, with few exceptions. Of these it selects
// those that all of the others select, too; for a Resource with a Selector, that. It is for lists and watches, and for the label
// selectors of a controller-runtime cache.
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

// end is called before the lease is released: no more work begins, and what is in flight is waited for.
func (s *Shard) end(ctx context.Context) error {
	term, _ := shardlease.TermFrom(ctx)
	s.tracker.close(term)
	return s.tracker.await(ctx)
}

// self is this shard in a term, which looks at roots of a resource.
func (s *Shard) self(term *shardlease.Term, resource schema.GroupVersionResource) protocol.Self {
	e := term.Epoch()
	return protocol.Self{Keys: s.marks[resource], OwnerEpoch: protocol.OwnerEpoch{Shard: s.lease.Identity(), LeaseUID: e.LeaseUID, Epoch: e.Number}}
}

// roleOf returns what the objects of a kind are in the ring.
func (s *Shard) roleOf(o runtime.Object) (protocol.Role, error) {
	kind := o.GetObjectKind().GroupVersionKind().GroupKind()
	if kind.Kind == "" { // as that of typed objects which client-go has decoded
		kinds, _, err := s.config.Scheme.ObjectKinds(o)
		if err != nil {
			return protocol.Role{}, fmt.Errorf("shard: the kind of a %T is unknown; is it in ShardConfig.Scheme? %w", o, err)
		}
		kind = kinds[0].GroupKind()
	}
	k, ok := s.kinds.of(kind)
	if !ok {
		return protocol.Role{}, fmt.Errorf("shard: objects of kind %s are not in ShardConfig.Resources", kind)
	}
	return k, nil
}

// wakeAcknowledger has a root looked at that something has happened to.
func (s *Shard) wakeAcknowledger(at protocol.Address) {
	if term, err := s.lease.Term(); err == nil {
		for _, i := range s.caches.begun(term, at.Resource, at.Namespace) {
			i.queue.Add(at)
		}
	}
}
