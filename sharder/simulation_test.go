package sharder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/workqueue"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// TestSimulatedShards proves that two shards never work on one object at the same time, and that
// each object finds a shard in the end. It runs whole replicas, each with a shard lease, a
// controller, and a sharder that takes part in an election. Processes and connections fail, and a
// user edits the objects.
func TestSimulatedShards(t *testing.T) {
	sim.Prove(t, sharding(), schedules(t, 50))
}

// TestSimulatedWrites proves the same for the writes that arrive at the server. No write of a
// shard's work, however late, reaches an object that another shard may work on, or that the shard
// has let go of. The work writes without preconditions, so the scenario does not pause processes.
// If a process stops between its last check and its request, no client can hold the request back.
func TestSimulatedWrites(t *testing.T) {
	s := sharding()
	s.Kinds = []sim.Kind{
		sim.Latency, sim.WatchLag, sim.Partition, sim.LostRequests, sim.LostResponses, sim.Refused, sim.Throttled,
		sim.ClockStep,
		sim.Kill, sim.Terminate, sim.Outage, sim.Restart, sim.Compaction, sim.Interference,
	}
	s.Rule = noForeignWrites
	sim.Prove(t, s, schedules(t, 50))
}

// TestSimulatedFamilies proves the same for families that move often. Users only create roots.
func TestSimulatedFamilies(t *testing.T) {
	s := sharding()
	s.Kinds = []sim.Kind{
		sim.Latency, sim.WatchLag, sim.Partition, sim.LostResponses, sim.Refused, sim.Kill,
		sim.Terminate, sim.Outage, sim.Restart, sim.Interference,
	}
	s.Interfere = populate
	sim.Prove(t, s, schedules(t, 50))
}

// TestSimulatedAdoptions proves the same for children that get other roots.
func TestSimulatedAdoptions(t *testing.T) {
	s := sharding()
	s.Kinds = []sim.Kind{
		sim.Latency, sim.WatchLag, sim.Partition, sim.LostResponses, sim.Refused, sim.Kill,
		sim.Terminate, sim.Restart, sim.Interference, sim.Interference, sim.Interference,
	}
	s.Interfere = func(w *sim.World, r *rand.Rand) {
		adopt(w, r)
		populate(w, r)
	}
	sim.Prove(t, s, schedules(t, 50))
}

// TestSimulatedWarmShards proves the same for families if every other replica keeps its caches when its
// term ends: it steps down when it cannot renew its lease, and takes the lease back.
func TestSimulatedWarmShards(t *testing.T) {
	s := sharding()
	s.Kinds = []sim.Kind{
		sim.Latency, sim.WatchLag, sim.Partition, sim.LostResponses, sim.Refused, sim.Kill, sim.Terminate, sim.Outage,
		sim.Restart, sim.Interference,
	}
	s.Interfere = populate
	s.Main = func(ctx context.Context, p *sim.Process) {
		runReplicaWith(ctx, p, replicaConfig{
			shard: configMaps, sharder: configMaps, warm: strings.ContainsAny(p.Name[:1], "ace"),
		})
	}
	sim.Prove(t, s, schedules(t, 50))
}

// TestSimulatedWeights proves the same while an administrator changes the weights of shards all the time, and
// has them drained. Sharders balance the objects, all but c.
func TestSimulatedWeights(t *testing.T) {
	s := sharding()
	s.Main = func(ctx context.Context, p *sim.Process) {
		balance := 1.25
		if strings.HasPrefix(p.Name, "c") {
			balance = 0
		}
		runReplicaWith(ctx, p, replicaConfig{shard: configMaps, sharder: configMaps, balance: balance})
	}
	s.Interfere = func(w *sim.World, r *rand.Rand) {
		if r.IntN(2) == 0 {
			meddle(w, r)
			return
		}
		value := []string{"null", `"0"`, `"1"`, `"5"`, `"300"`, `"none"`}[r.IntN(6)]
		patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`, shardlease.WeightAnnotation, value)
		_, _ = leasesOf(w).Patch(context.Background(), string(rune('a'+r.IntN(3))), types.MergePatchType, []byte(patch),
			metav1.PatchOptions{})
	}
	sim.Prove(t, s, schedules(t, 20))
}

// oneFamilyOneShard is the rule that no two shards work on a family at the same time, and that no
// child leaves the shard that works on its root.
func oneFamilyOneShard(w *sim.World) sim.Rule {
	children := birthsOf(w)
	w.Server.Observe(children.see)
	return func(_, other *sim.Process) (violation, excuse string) {
		if other != nil {
			return "overlap", ""
		}
		return children.loss(), ""
	}
}

// noForeignWrites is the rule that no two shards work on an object at the same time, that no child
// leaves the shard at work on its root, and that no write of work comes too late. A write is too
// late if the object has a valid record by which the writer does not own the object, nor has still to
// acknowledge that it does not work on it. Until then no other shard may work.
func noForeignWrites(w *sim.World) sim.Rule {
	var late atomic.Pointer[string]
	w.Server.Observe(func(c apisim.Change) {
		birthsOf(w).see(c)
		if c.Before == nil || c.After == nil || by(c.Before) == by(c.After) {
			return
		}
		if wrong := foreign(c.Before, c.Client); wrong != "" {
			late.Store(&wrong)
		}
	})
	return func(_, other *sim.Process) (violation, excuse string) {
		if wrong := late.Load(); wrong != nil {
			return *wrong, ""
		}
		if other != nil {
			return "overlap", ""
		}
		return birthsOf(w).loss(), ""
	}
}

// foreign returns what is wrong with a write to a root, or to a child of it, if the root has a valid record by
// which the client's shard may not work on it; otherwise it returns an empty string.
func foreign(root *apisim.Object, client string) string {
	var r struct {
		UID          types.UID
		Shard, State string
		Left         []struct{ Shard string } // that have still to acknowledge, before the owner may work
	}
	record := root.GetAnnotations()[recordAnnotation]
	_ = json.Unmarshal([]byte(record), &r)
	genuine := root.GetLabels()[api.SealLabel(simulatedRing)] == strconv.FormatUint(xxhash.Sum64String(record), 16)
	writer := struct{ Shard string }{identity(client)}
	may := r.State == "owned" && r.Shard == writer.Shard || slices.Contains(r.Left, writer)
	if !genuine || r.UID != root.GetUID() || may {
		return ""
	}
	return fmt.Sprintf("%s writes to %s, whose record says %+v", client, r.UID, r)
}

var recordAnnotation = api.RecordAnnotation(simulatedRing, schema.GroupResource{Resource: "configmaps"})

// by returns the value that work has written into a root or a child.
func by(o *apisim.Object) string {
	if o == nil {
		return ""
	}
	if o.GetKind() != "ConfigMap" {
		return o.GetAnnotations()["by"]
	}
	value, _, _ := unstructured.NestedString(o.Content(), "data", "by")
	return value
}

const (
	simulatedRing = "r"
	scanInterval  = 20 * time.Second
	resync        = 15 * time.Second // how often a controller works on each of its objects
)

func sharding() sim.Scenario {
	return sim.Scenario{
		MinReplicas: 2, MaxReplicas: 3, RateError: 0.1, Unaware: 1200 * time.Millisecond,
		Duration: 5 * time.Minute, Quiet: 2*time.Minute + scanInterval,
		Main: runReplica, Interfere: meddle, Check: everyObjectHasOneOwner, Rule: oneFamilyOneShard,
	}
}

// changes are the times at which the members of the ring have changed.
type changes struct {
	mu sync.Mutex
	at []time.Time
}

func changesOf(w *sim.World) *changes {
	c, _ := w.State.LoadOrStore("changes", &changes{})
	return c.(*changes)
}

func (c *changes) note() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, time.Now())
}

// after returns how many there were after a time.
func (c *changes) after(t time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(c.at), func(at time.Time) bool { return !at.After(t) }))
}

// identity returns the name that all processes of a replica share.
func identity(process string) string { return strings.TrimRight(process, "0123456789") }

var configMaps = []api.Resource{{
	GVR:      corev1.SchemeGroupVersion.WithResource("configmaps"),
	Children: []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("pods")},
}}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return m
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// runReplica runs a replica of a ring of configMaps.
func runReplica(ctx context.Context, p *sim.Process) { runReplicaOf(ctx, p, configMaps) }

// runReplicaOf runs a replica of a ring of those resources. Its requests pass through hands.
func runReplicaOf(ctx context.Context, p *sim.Process, resources []api.Resource, hands ...transport.WrapperFunc) {
	runReplicaWith(ctx, p, replicaConfig{shard: resources, sharder: resources}, hands...)
}

// replicaConfig has the resources of the ring for the shard and for the sharder of a replica. If it is
// warm, it steps down before its deadline, and its caches live as long as the process.
type replicaConfig struct {
	shard, sharder []api.Resource
	warm           bool
	// work is what works in each term, until ctx has ended or it returns, instead of controls. upstream is
	// for its clients.
	work    func(ctx context.Context, p *sim.Process, worker *shard.Shard, upstream *rest.Config)
	quiet   time.Duration // of the shard
	balance float64       // of the sharder
}

func runReplicaWith(ctx context.Context, p *sim.Process, c replicaConfig, hands ...transport.WrapperFunc) {
	leases, config := clientsFor(p.Config()), shardlease.Config{
		Namespace: "ns", Ring: simulatedRing, Identity: identity(p.Name), Clock: p.Clock, OnLost: func(error) {
			p.Exit()
		},
	}
	if c.warm {
		config.StepDown = 4 * time.Second
	}
	lease := must(shardlease.New(leases, config))
	elector := must(leaderelection.New(leases, leaderelection.Config{
		Namespace: "ns", Name: "sharder", Identity: p.Name, Clock: p.Clock, OnLost: func(error) {},
	}))
	own, sharders := p.Config(), p.Config()
	own.Wrap(transport.Wrappers(hands...))
	sharders.Wrap(transport.Wrappers(hands...))
	own.Timeout = 20 * time.Second // or a controller waits forever for a lost response
	own.Wrap(lease.WrapTransport)
	sharders.Wrap(elector.WrapTransport)
	worker := must(shard.New(metadata.NewForConfigOrDie(own), mapper(), lease, shard.Config{
		Resources: c.shard, Quiet: c.quiet,
	}))
	s := must(sharder.New(clientsFor(sharders), metadata.NewForConfigOrDie(sharders), mapper(),
		sharder.Config{
			Ring: simulatedRing, Namespace: "ns", Resources: c.sharder, ScanInterval: scanInterval,
			GCPeriod: time.Minute, Balance: c.balance,
			Hooks: sharder.Hooks{OnMembership: func([]string) { changesOf(p.World()).note() }},
		}.WithClock(p.Clock)))
	p.World().State.Store(identity(p.Name), s)
	families := slices.ContainsFunc(c.sharder, func(r api.Resource) bool { return len(r.Children) > 0 })
	var warm *controls
	if c.warm {
		warm = newControls(p, worker, own, families)
		defer warm.show(ctx)()
	}
	err := lease.Run(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		var sharding sync.WaitGroup
		defer sharding.Wait()
		defer cancel() // work may return early
		sharding.Go(func() {
			if err := elector.Run(ctx, s.Run); err != nil && ctx.Err() == nil {
				p.Fail("sharder: %v", err)
			}
		})
		if c.work != nil {
			c.work(ctx, p, worker, own)
			return nil
		}
		if warm != nil {
			warm.run(ctx)
			return nil
		}
		cold := newControls(p, worker, own, families)
		defer cold.show(ctx)()
		cold.run(ctx)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		p.Fail("lease: %v", err)
	}
}

// controls are the controllers of a replica, and their caches.
type controls struct {
	p        *sim.Process
	worker   *shard.Shard
	client   coreclient.ConfigMapInterface
	informer cache.SharedIndexInformer
	children *brood // nil: there are none
}

func newControls(p *sim.Process, worker *shard.Shard, config *rest.Config, families bool) *controls {
	clients := clientsFor(config)
	c := &controls{p: p, worker: worker, client: clients.CoreV1().ConfigMaps("ns")}
	if families {
		c.children = newBrood(p, worker, clients)
	}
	c.informer = worker.NewInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.client.Watch(ctx, o)
		},
	}, &corev1.ConfigMap{}, resync, cache.Indexers{})
	return c
}

// show runs the caches until ctx has ended. wait returns when they have ended.
func (c *controls) show(ctx context.Context) (wait func()) {
	var running sync.WaitGroup
	running.Go(func() { c.informer.RunWithContext(ctx) })
	if c.children != nil {
		running.Go(func() { c.children.informer.RunWithContext(ctx) })
	}
	return running.Wait
}

// run runs the controllers until their last worker has returned.
func (c *controls) run(ctx context.Context) {
	p, worker, informer := c.p, c.worker, c.informer
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	add := func(o any) { queue.Add(must(cache.DeletionHandlingMetaNamespaceKeyFunc(o))) }
	handler := must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, o any) { add(o) },
		DeleteFunc: add,
	}))
	defer func() { _ = informer.RemoveEventHandler(handler) }()
	var running sync.WaitGroup
	defer running.Wait()
	if c.children != nil {
		running.Go(func() { _ = c.children.control(ctx) })
	}
	for range 2 {
		running.Go(func() {
			for {
				key, over := queue.Get()
				if over {
					return
				}
				if o, exists, _ := informer.GetStore().GetByKey(key); exists {
					err := worker.Do(ctx, o.(*corev1.ConfigMap), func(ctx context.Context) error {
						return work(ctx, p, c.client, c.children, o.(*corev1.ConfigMap))
					})
					if errors.Is(err, shard.ErrNotYet) {
						queue.AddAfter(key, time.Second)
					}
				}
				queue.Done(key)
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
}

// work takes a while, acts as long as its term lasts, and sometimes writes at the end. Work on
// about a third of the objects ignores the end of its context.
func work(ctx context.Context, p *sim.Process, client coreclient.ConfigMapInterface, children *brood,
	o *corev1.ConfigMap,
) error {
	key := string(o.UID)
	p.Begin(key)
	defer p.End(key)
	term, _ := shardlease.TermFrom(ctx)
	checkFresh(ctx, p, o.UID, map[types.UID]string{o.UID: o.ResourceVersion})
	if children != nil {
		children.check(ctx, o.UID)
		defer birthsOf(p.World()).begin(o.UID, p, term)()
	}
	now := p.Clock.Now().Wall.UnixNano()
	done := ctx.Done()
	if o.UID[len(o.UID)-1]%3 == 0 {
		done = nil
	}
	for range 1 + now%6 { // at least once, or each write could cause the next one forever
		tick := p.Clock.NewTimer(500 * time.Millisecond)
		select {
		case <-done:
			tick.Stop()
			return context.Cause(ctx)
		case <-tick.C():
			if term.Err() != nil {
				return term.Err()
			}
			p.Act(key)
		}
	}
	p.World().State.Store(key, worked{identity(p.Name), time.Now()})
	if children != nil && hasChildren(o.UID) {
		if err := children.tend(ctx, o, now); err != nil {
			return err
		}
	}
	if now%3 == 0 {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // a timed-out request may still arrive
		defer cancel()
		_, err := client.Patch(ctx, o.Name, types.MergePatchType,
			[]byte(`{"data":{"by":"`+p.Name+strconv.FormatInt(now, 10)+`"}}`), metav1.PatchOptions{})
		return err
	}
	return nil
}

// worked says which shard worked on an object last, and when.
type worked struct {
	identity string
	at       time.Time
}

func objectsOf(w *sim.World) coreclient.ConfigMapInterface {
	return coreclient.NewForConfigOrDie(w.Connect(user).Config()).ConfigMaps("ns")
}

func leasesOf(w *sim.World) coordinationclient.LeaseInterface {
	return coordinationclient.NewForConfigOrDie(w.Connect(user).Config()).Leases("ns")
}

// meddle does what users do: it creates and deletes objects, and edits marks of the ring. It keeps
// about eight objects.
func meddle(w *sim.World, r *rand.Rand) {
	meddleWith(w, r, func(roots []corev1.ConfigMap) { meddleWithChildren(w, r, roots) })
}

// meddleWith is meddle with another function that edits the children.
func meddleWith(w *sim.World, r *rand.Rand, children func(roots []corev1.ConfigMap)) {
	ctx, client := context.Background(), objectsOf(w)
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: "user"})
	if err != nil {
		return
	}
	populate(w, r)
	if len(list.Items) == 0 {
		return
	}
	o := &list.Items[r.IntN(len(list.Items))]
	patch := func(labels, annotations map[string]any) {
		p := must(json.Marshal(map[string]any{"metadata": map[string]any{
			"labels":      labels,
			"annotations": annotations,
		}}))
		_, _ = client.Patch(ctx, o.Name, types.MergePatchType, p, metav1.PatchOptions{})
	}
	shard, drain, owner := api.ShardLabel(simulatedRing), api.DrainLabel(simulatedRing), recordAnnotation
	switch r.IntN(16) {
	case 0:
		patch(map[string]any{shard: nil}, nil)
	case 1:
		patch(map[string]any{shard: string(rune('a' + r.IntN(4)))}, nil) // the last of them is no shard
	case 2:
		patch(map[string]any{drain: nil}, nil)
	case 3:
		patch(map[string]any{drain: "yes"}, nil)
	case 4:
		patch(nil, map[string]any{owner: nil})
	case 5:
		patch(map[string]any{shard: nil, drain: nil}, map[string]any{owner: nil}) // as kubectl replace does
	case 6:
		create(client, r, o)
	case 7:
		_ = client.Delete(ctx, o.Name, metav1.DeleteOptions{})
	case 9, 10, 11, 12:
		children(list.Items)
	case 13, 14:
		replay(w, r, list.Items)
	case 15:
		patch(map[string]any{api.SealLabel(simulatedRing): nil}, nil)
	case 8:
		name := string(rune('a' + r.IntN(3)))
		_ = leasesOf(w).Delete(ctx, name, metav1.DeleteOptions{})
	}
}

// objectCount is the key of how many objects a world has. Default: eight.
type objectCount struct{}

// populate creates objects until there are about as many as the world has.
func populate(w *sim.World, r *rand.Rand) {
	client := objectsOf(w)
	list, err := client.List(context.Background(), metav1.ListOptions{LabelSelector: "user"})
	if err != nil {
		return
	}
	count := 8
	if v, ok := w.State.Load(objectCount{}); ok {
		count = v.(int)
	}
	for i := len(list.Items); i < count; i++ {
		create(client, r, nil)
	}
}

// create creates an object. Unless from is nil, the object is a copy with the same labels and
// annotations.
func create(client coreclient.ConfigMapInterface, r *rand.Rand, from *corev1.ConfigMap) {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:   fmt.Sprint("o", r.Uint64()),
		Labels: map[string]string{"user": ""},
	}}
	if from != nil {
		o.Labels, o.Annotations = maps.Clone(from.Labels), maps.Clone(from.Annotations)
	}
	_, _ = client.Create(context.Background(), o, metav1.CreateOptions{})
}

// explain returns the sharder's explanation of an object.
func explain(w *sim.World, name string) string {
	for _, shard := range []string{"a", "b", "c"} {
		v, ok := w.State.Load(shard)
		if !ok {
			continue
		}
		s := v.(*sharder.Sharder)
		if status, running := s.Status(); running {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			e, err := s.Explain(ctx, api.ObjectRef{GVR: configMaps[0].GVR, Namespace: "ns", Name: name})
			return fmt.Sprintf("%s is the sharder (%+v), which says: %+v, %v", shard, status, e, err)
		}
	}
	return "there is no sharder"
}

// everyObjectHasOneOwner returns an error unless a shard owns and works on each object, and each
// child is with its root. This holds when there has been no fault for a while.
func everyObjectHasOneOwner(w *sim.World) error {
	// A shard that has come and gone often becomes a member late, and then objects move to it. That
	// happens once for each shard.
	c, now := changesOf(w), time.Now()
	if c.after(now.Add(-2*resync)) > 0 && c.after(now.Add(-2*time.Minute)) <= w.Replicas() {
		return nil
	}
	list, err := objectsOf(w).List(context.Background(), metav1.ListOptions{LabelSelector: "user"})
	if err != nil {
		return err
	}
	var problems []error
	for _, o := range list.Items {
		last, _ := w.State.Load(string(o.UID))
		by, _ := last.(worked)
		shard := o.Labels[api.ShardLabel(simulatedRing)]
		_, drained := o.Labels[api.DrainLabel(simulatedRing)]
		if shard == "" || drained || by.identity != shard || time.Since(by.at) > 2*resync {
			problems = append(problems, fmt.Errorf("object %s (%s) is not looked after: labels %v, record %s, last "+
				"worked on by %q %v ago: %s", o.Name, o.UID, o.Labels,
				o.Annotations[recordAnnotation], by.identity, time.Since(by.at), explain(w, o.Name)))
		}
	}
	return errors.Join(append(problems, everyChildIsWithItsRoot(w, list.Items))...)
}
