package fencing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/fresh"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodestate"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

var (
	// ErrOwnHost is returned by Run when the node of this process has failed. A controller on
	// another node must then lead and fence it.
	ErrOwnHost = errors.New("fencing: the node of this process has failed: another leader has to fence it")
	// ErrBusy is returned by Run while another Run of the same Controller has not returned.
	ErrBusy = errors.New("fencing: Run of this controller is already running")
)

// Controller fences nodes. Only the leader runs it.
type Controller struct {
	kube       kubernetes.Interface
	nodeFences nodeFenceClient
	dynamic    dynamic.Interface
	config     Config
	turns      *turns
	busy       sync.Mutex // held by Run

	mu      sync.Mutex
	running *run // guarded by mu; nil if Run does not run
}

// New returns a controller. It sends no requests. The error names each invalid field.
//
// The clients should use the elector's WrapTransport, so that a process without the leadership
// cannot write. Their rate limit should be at least some hundred requests per second.
func New(kube kubernetes.Interface, dyn dynamic.Interface, c Config) (*Controller, error) {
	c, err := c.complete()
	if kube == nil || dyn == nil {
		err = errors.Join(errors.New("fencing: clients: required (got nil)"), err)
	}
	if err != nil {
		return nil, err
	}
	return &Controller{
		kube: kube, dynamic: dyn, nodeFences: newNodeFenceClient(dyn), config: c, turns: newTurns(c.ChecksAtOnce),
	}, nil
}

// tick is the interval at which the controller checks all nodes.
const tick = time.Second

// Run fences nodes until ctx ends. It returns when everything that it started has ended; a command
// to a device may delay that by CommandTimeout. Run it under an elector: elector.Run(ctx,
// controller.Run). It returns nil when ctx has ended, [ErrOwnHost], [ErrBusy], or an error if the
// API server does not serve NodeFences or forbids a required list.
func (c *Controller) Run(ctx context.Context) error {
	if !c.busy.TryLock() {
		return ErrBusy
	}
	defer c.busy.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	role := kube.NewRole(c.config.Logger)
	ctx, endReviews := role.Begin(ctx)
	defer endReviews()
	r, err := c.begin(ctx, role)
	if r != nil {
		defer r.end(cancel)
	}
	if err != nil || ctx.Err() != nil {
		return err
	}
	r.ended.Go(func() { r.checks.watch(ctx) })
	c.runs(r)
	defer c.runs(nil)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		if err := r.reconcile(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// run is the controller during one term of leadership.
type run struct {
	*Controller
	state   *clusterState
	plans   *planCache
	secrets *secrets
	checks  *checks
	dumps   *dumps
	clock   clock.Clock // one for all, so that readings can be compared
	role    *kube.Role

	ended sync.WaitGroup

	began  time.Time
	mu     sync.Mutex
	fences map[string]*fence // under way, by node
	closed bool

	watches *kube.Failures // by what is watched

	requests map[string]*commissionRequest // by node

	ahead chan struct{} // bounds the fences that read devices ahead: as many as may start

	pods  sync.Mutex
	spent policy.Budget // guarded by pods
}

// begin starts the watches, and returns when their caches are complete.
func (c *Controller) begin(ctx context.Context, role *kube.Role) (*run, error) {
	used := &atomic.Pointer[uses]{}
	role.Needs(c.kube, func() []kube.Right { return c.config.rights(used.Load()) })
	if err := c.mayWatch(ctx); err != nil {
		role.Explain(ctx, err)
		return nil, err
	}
	nodes, err := nodestate.New(c.config.Nodes)
	if err != nil {
		return nil, err
	}
	r := &run{
		Controller: c, role: role, clock: clock.System(), began: time.Now(),
		fences: map[string]*fence{}, requests: map[string]*commissionRequest{},
		watches: kube.NewFailures(c.config.Logger, clock.System()),
		ahead:   make(chan struct{}, c.config.Limits.MaxConcurrent),
	}
	core := c.kube.CoreV1()
	allNodes := newInformer(c.kube, core.Nodes(), &corev1.Node{})
	configMaps := newInformer(c.kube, core.ConfigMaps(c.config.Namespace), &corev1.ConfigMap{})
	r.state = newClusterState(
		c.config,
		nodes,
		corelisters.NewNodeLister(allNodes.GetIndexer()),
		corelisters.NewConfigMapLister(configMaps.GetIndexer()),
		r.wake,
	)
	r.secrets = newSecrets(c.kube, c.config)
	r.plans = newPlanCache(c.config, r.state, r.secrets, r.begins, used)
	r.checks, r.dumps = newChecks(r), newDumps(r)
	r.state.checked = r.checks.status

	nodeFence := &unstructured.Unstructured{}
	nodeFence.SetGroupVersionKind(v1alpha1.Kind())
	handlers := []struct {
		informer cache.SharedIndexInformer
		saw      func(object any)
		gone     func(object any)
	}{
		{allNodes, r.sawNode, r.nodeGone},
		{
			newInformer(c.kube, c.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease), &coordinationv1.Lease{}),
			r.sawLease, r.leaseGone,
		},
		{configMaps, func(any) {}, func(any) {}},
		{
			newInformer(c.dynamic, c.dynamic.Resource(v1alpha1.Resource()), nodeFence),
			r.sawFence, r.fenceGone,
		},
	}
	var synced []cache.InformerSynced
	for _, h := range handlers {
		if err := h.informer.SetWatchErrorHandlerWithContext(r.watchFailed); err != nil {
			return r, fmt.Errorf("fencing: watch: %w", err)
		}
		registration, err := h.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    h.saw,
			UpdateFunc: func(_, object any) { h.saw(object) },
			DeleteFunc: func(object any) {
				if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = gone.Obj
				}
				h.gone(object)
			},
		})
		if err != nil {
			return r, fmt.Errorf("fencing: watch: %w", err)
		}
		synced = append(synced, registration.HasSynced)
	}
	for _, h := range handlers {
		r.ended.Go(func() { h.informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return r, nil // ctx has ended
	}
	nodes.Synced()
	return r, nil
}

// newInformer returns an informer of all objects of a client's resource. An informer factory would
// make every user of this package compile the informers of all other resources.
func newInformer[List runtime.Object](client any, resource interface {
	List(context.Context, metav1.ListOptions) (List, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}, example runtime.Object,
) cache.SharedIndexInformer {
	source := cache.ToListWatcherWithWatchListSemantics(fresh.Source(resource), client)
	return cache.NewSharedIndexInformer(source, example, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

// mayWatch returns an error if the API server forbids or does not serve a required watch. A
// controller that waited for it would silently fence no node. Temporary errors are ignored.
func (c *Controller) mayWatch(ctx context.Context) error {
	one := metav1.ListOptions{Limit: 1}
	for _, list := range []struct {
		what string
		of   func() error
	}{
		{
			"NodeFences: is their CustomResourceDefinition installed?",
			func() error { _, err := c.dynamic.Resource(v1alpha1.Resource()).List(ctx, one); return err },
		},
		{"Nodes", func() error { _, err := c.kube.CoreV1().Nodes().List(ctx, one); return err }},
		{"Leases in " + corev1.NamespaceNodeLease, func() error {
			_, err := c.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, one)
			return err
		}},
		{
			"ConfigMaps in " + c.config.Namespace,
			func() error { _, err := c.kube.CoreV1().ConfigMaps(c.config.Namespace).List(ctx, one); return err },
		},
	} {
		err := list.of()
		if ctx.Err() == nil && (apierrors.IsNotFound(err) || kube.Forbidden(err)) {
			return fmt.Errorf("fencing: list %s %w", list.what, err)
		}
	}
	return nil
}

// watchFailed logs that a watch has failed. client-go opens it again.
func (r *run) watchFailed(ctx context.Context, watch *cache.Reflector, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, io.EOF) {
		return
	}
	r.role.Refused(err)
	r.watches.Note(watch.TypeDescription(), err, "watch ended, reopening", "")
}

// end waits until all goroutines have ended. After that, nothing is known.
func (r *run) end(cancel context.CancelFunc) {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	cancel()
	r.ended.Wait()
	if hook := r.config.Hooks.OnForgotten; hook != nil {
		for _, node := range r.state.fenced() {
			hook(node)
		}
	}
}

// reconcile starts the fences of nodes that fail and of nodes that have a record.
func (r *run) reconcile(ctx context.Context) error {
	all := r.state.observe()
	for i := range all.Nodes {
		n := &all.Nodes[i]
		if n.Name == r.config.Node && r.leaves(n) {
			return ErrOwnHost
		}
		if r.state.candidate(n) {
			r.carryOut(ctx, n.Name)
		}
	}
	for _, node := range r.state.fenced() {
		r.carryOut(ctx, node)
	}
	r.takeRequests(ctx)
	return nil
}

// leaves reports whether another process must fence the node of this one. If the node fails but is
// Ready, this process works and may be the only one, so it stays until it has led for twice as long
// as a new leader may have to wait. Otherwise a leader that is elected again and again would fence
// no node.
func (r *run) leaves(own *policy.NodeFacts) bool {
	limits := r.config.Limits
	return own.NotReadyFor >= limits.NotReadyFor ||
		fails(own) && own.FailingFor >= limits.NotReadyFor &&
			time.Since(r.began) >= 2*(limits.Observation+limits.CoolDown)
}

// carryOut starts a goroutine for the fence of a node, unless one is running.
func (r *run) carryOut(ctx context.Context, node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fences[node] != nil || r.closed {
		return
	}
	f := newFence(r, node)
	r.fences[node] = f
	r.ended.Go(func() {
		f.carryOut(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.fences, node)
	})
}

// begins runs a function in a goroutine, unless the run is ending.
func (r *run) begins(something func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.ended.Go(something)
	}
	return !r.closed
}

// wake makes the fence of a node decide again.
func (r *run) wake(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.fences[node]; f != nil {
		select {
		case f.woken <- struct{}{}:
		default:
		}
	}
}

func (r *run) sawNode(object any) {
	if n, ok := object.(*corev1.Node); ok {
		r.state.nodes.Node(n, time.Now())
		r.wake(n.Name)
	}
}

func (r *run) nodeGone(object any) {
	if n, ok := object.(*corev1.Node); ok {
		r.state.nodes.NodeGone(n.Name, n.UID)
		r.wake(n.Name)
	}
}

func (r *run) sawLease(object any) {
	if l, ok := object.(*coordinationv1.Lease); ok {
		r.state.nodes.Lease(l, time.Now())
		r.wake(l.Name) // a fence may wait for the node to start
	}
}

func (r *run) leaseGone(object any) {
	if l, ok := object.(*coordinationv1.Lease); ok {
		r.state.nodes.LeaseGone(l.Name, l.UID)
	}
}

func (r *run) sawFence(object any) {
	f := r.decoded(object)
	if f == nil {
		return
	}
	if hook := r.config.Hooks.OnRecord; hook != nil {
		hook(f)
	}
	if r.state.observeRecord(f) {
		r.wake(f.Node)
	}
}

func (r *run) fenceGone(object any) {
	if f := r.decoded(object); f != nil {
		if hook := r.config.Hooks.OnForgotten; hook != nil {
			hook(f.Node)
		}
		r.state.forgetRecord(f)
		r.wake(f.Node)
	}
}

func (r *run) decoded(object any) *v1alpha1.NodeFence {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	f, err := typed(u)
	switch {
	case err != nil:
		r.config.Logger.Error("NodeFence cannot be decoded", zap.Error(err))
		return nil
	case f.Name != v1alpha1.Name(f.Node):
		r.config.Logger.Warn(
			"NodeFence ignored, its name does not match its node",
			zap.String("name", f.Name),
			zap.String("node", f.Node),
		)
		return nil
	}
	return f
}
