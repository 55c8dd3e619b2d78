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
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
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
	client  client
	dynamic dynamic.Interface
	config  Config
	turns   *turns
	busy    sync.Mutex // held by Run

	mu      sync.Mutex
	running *term // guarded by mu; nil if Run does not run
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
		client: client{kube, dyn.Resource(v1alpha1.Resource())}, dynamic: dyn, config: c,
		turns: newTurns(c.ChecksAtOnce),
	}, nil
}

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
	t, err := c.begin(ctx, role)
	if t != nil {
		defer t.end(cancel)
	}
	if err != nil || ctx.Err() != nil {
		return err
	}
	t.tasks.begin(func() { t.checks.watch(ctx) })
	c.runs(t)
	defer c.runs(nil)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		if err := t.reconcile(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (c *Controller) runs(t *term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = t
}

// leading returns the term under way, or nil if Run does not run.
func (c *Controller) leading() *term {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.config.Leadership.Remaining() <= 0 {
		return nil
	}
	return c.running
}

// term has the parts of the controller during one term of leadership.
type term struct {
	config      *Config
	client      client
	clock       clock.Clock // one for all, so that readings can be compared
	tasks       *tasks
	state       *clusterState
	plans       *planCache
	devices     *devices
	dumps       *dumps
	checks      *checks
	commissions *commissions

	began   time.Time
	watches *kube.Failures // by what is watched
}

// begin starts the watches, and returns when their caches are complete.
func (c *Controller) begin(ctx context.Context, role *kube.Role) (*term, error) {
	used := &atomic.Pointer[uses]{}
	role.Needs(c.client.kube, func() []kube.Right { return c.config.rights(used.Load()) })
	if err := c.mayWatch(ctx); err != nil {
		role.Explain(ctx, err)
		return nil, err
	}
	nodes, err := nodestate.New(c.config.Nodes)
	if err != nil {
		return nil, err
	}
	core, leases := c.client.kube.CoreV1(), c.client.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	allNodes := newInformer(c.client.kube, core.Nodes(), &corev1.Node{})
	configMaps := newInformer(c.client.kube, core.ConfigMaps(c.config.Namespace), &corev1.ConfigMap{})
	t := &term{
		config: &c.config, client: c.client, clock: clock.System(), began: time.Now(),
		tasks:   &tasks{fences: map[string]chan struct{}{}},
		watches: kube.NewFailures(c.config.Logger, clock.System()),
	}
	t.state = &clusterState{
		config: &c.config, nodes: nodes, tasks: t.tasks,
		nodeLister: corelisters.NewNodeLister(allNodes.GetIndexer()),
		configMaps: corelisters.NewConfigMapLister(configMaps.GetIndexer()),
		fences:     map[string]*v1alpha1.NodeFence{}, deleted: map[string]types.UID{},
		waiting: map[string]waiting{}, slots: map[string]bool{}, checked: map[string]error{},
	}
	t.devices = newDevices(&c.config, c.client.kube, c.turns)
	t.plans = newPlanCache(c.config, t.state, t.devices.secrets, t.tasks.begin, used)
	t.dumps = &dumps{
		config: &c.config, nodes: t.state.nodeLister, tasks: t.tasks, clock: t.clock, last: map[string]heard{},
	}
	t.checks = &checks{
		config: &c.config, client: c.client, state: t.state, plans: t.plans, devices: t.devices, dumps: t.dumps,
		tasks: t.tasks, began: t.began, survey: survey{config: &c.config, state: t.state, plans: t.plans},
		nodes: map[string]*checked{},
	}
	t.commissions = &commissions{
		config: &c.config, client: c.client, state: t.state, plans: t.plans, tasks: t.tasks, began: t.began,
		requests: map[string]*commissionRequest{},
	}

	nodeFence := &unstructured.Unstructured{}
	nodeFence.SetGroupVersionKind(v1alpha1.Kind())
	handlers := []struct {
		informer cache.SharedIndexInformer
		saw      func(object any)
		gone     func(object any)
	}{
		{allNodes, t.sawNode, t.nodeGone},
		{newInformer(c.client.kube, leases, &coordinationv1.Lease{}), t.sawLease, t.leaseGone},
		{configMaps, func(any) {}, func(any) {}},
		{newInformer(c.dynamic, c.client.fences, nodeFence), t.sawFence, t.fenceGone},
	}
	var synced []cache.InformerSynced
	for _, h := range handlers {
		if err := h.informer.SetWatchErrorHandlerWithContext(t.watchFailed); err != nil {
			return t, fmt.Errorf("fencing: watch: %w", err)
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
			return t, fmt.Errorf("fencing: watch: %w", err)
		}
		synced = append(synced, registration.HasSynced)
	}
	for _, h := range handlers {
		t.tasks.begin(func() { h.informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return t, nil // ctx has ended
	}
	nodes.Synced()
	return t, nil
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
	core, leases := c.client.kube.CoreV1(), c.client.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	for _, list := range []struct {
		what string
		of   func() error
	}{
		{
			"NodeFences: is their CustomResourceDefinition installed?",
			func() error { _, err := c.client.fences.List(ctx, one); return err },
		},
		{"Nodes", func() error { _, err := core.Nodes().List(ctx, one); return err }},
		{"Leases in " + corev1.NamespaceNodeLease, func() error { _, err := leases.List(ctx, one); return err }},
		{
			"ConfigMaps in " + c.config.Namespace,
			func() error { _, err := core.ConfigMaps(c.config.Namespace).List(ctx, one); return err },
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
func (t *term) watchFailed(ctx context.Context, watch *cache.Reflector, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, io.EOF) {
		return
	}
	kube.RoleOf(ctx).Refused(err)
	t.watches.Note(watch.TypeDescription(), err, "watch ended, reopening", "")
}

// end waits until all goroutines have ended. After that, nothing is known.
func (t *term) end(cancel context.CancelFunc) {
	t.tasks.end(cancel)
	if hook := t.config.Hooks.OnForgotten; hook != nil {
		for _, node := range t.state.fenced() {
			hook(node)
		}
	}
}

// reconcile starts the fences of nodes that fail and of nodes that have a record.
func (t *term) reconcile(ctx context.Context) error {
	all := t.state.observe()
	for i := range all.Nodes {
		n := &all.Nodes[i]
		if n.Name == t.config.Node && t.leaves(n) {
			return ErrOwnHost
		}
		if t.state.candidate(n) {
			t.carryOut(ctx, n.Name)
		}
	}
	for _, node := range t.state.fenced() {
		t.carryOut(ctx, node)
	}
	t.commissions.take(ctx)
	return nil
}

// leaves reports whether another process must fence the node of this one. If the node fails but is
// Ready, this process works and may be the only one, so it stays until it has led for twice as long
// as a new leader may have to wait. Otherwise a leader that is elected again and again would fence
// no node.
func (t *term) leaves(own *policy.NodeFacts) bool {
	limits := t.config.Limits
	return own.NotReadyFor >= limits.NotReadyFor ||
		fails(own) && own.FailingFor >= limits.NotReadyFor &&
			time.Since(t.began) >= 2*(limits.Observation+limits.CoolDown)
}

// carryOut starts a goroutine for the fence of a node, unless one is running.
func (t *term) carryOut(ctx context.Context, node string) {
	t.tasks.fence(node, func(woken <-chan struct{}) {
		log := t.config.Logger.With(zap.String("node", node))
		f := &fence{
			config: t.config, client: t.client, clock: t.clock, state: t.state, plans: t.plans,
			devices: t.devices, dumps: t.dumps, checks: t.checks,
			node: node, woken: woken, log: log, retries: kube.NewFailures(log, t.clock),
			memory: statemachine.NewMemory(t.clock.Now()), prepared: map[string]preparation{},
		}
		f.carryOut(ctx)
	})
}

func (t *term) sawNode(object any) {
	if n, ok := object.(*corev1.Node); ok {
		t.state.nodes.Node(n, time.Now())
		t.tasks.wake(n.Name)
	}
}

func (t *term) nodeGone(object any) {
	if n, ok := object.(*corev1.Node); ok {
		t.state.nodes.NodeGone(n.Name, n.UID)
		t.tasks.wake(n.Name)
	}
}

func (t *term) sawLease(object any) {
	if l, ok := object.(*coordinationv1.Lease); ok {
		t.state.nodes.Lease(l, time.Now())
		t.tasks.wake(l.Name) // a fence may wait for the node to start
	}
}

func (t *term) leaseGone(object any) {
	if l, ok := object.(*coordinationv1.Lease); ok {
		t.state.nodes.LeaseGone(l.Name, l.UID)
	}
}

func (t *term) sawFence(object any) {
	f := t.decoded(object)
	if f == nil {
		return
	}
	if hook := t.config.Hooks.OnRecord; hook != nil {
		hook(f)
	}
	if t.state.observeRecord(f) {
		t.tasks.wake(f.Node)
	}
}

func (t *term) fenceGone(object any) {
	if f := t.decoded(object); f != nil {
		if hook := t.config.Hooks.OnForgotten; hook != nil {
			hook(f.Node)
		}
		t.state.forgetRecord(f)
		t.tasks.wake(f.Node)
	}
}

func (t *term) decoded(object any) *v1alpha1.NodeFence {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	f, err := typed(u)
	switch {
	case err != nil:
		t.config.Logger.Error("NodeFence cannot be decoded", zap.Error(err))
		return nil
	case f.Name != v1alpha1.Name(f.Node):
		t.config.Logger.Warn("NodeFence ignored, its name does not match its node",
			zap.String("name", f.Name), zap.String("node", f.Node))
		return nil
	}
	return f
}
