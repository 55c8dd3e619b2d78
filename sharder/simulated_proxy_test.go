package sharder_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/sharder/proxy"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
)

// TestSimulatedProxies is TestSimulatedWrites for a program that knows nothing of shards. Its requests go
// through a proxy. It writes with and without preconditions, up to a minute after it has read. No
// write of it, however late, reaches an object that another shard may work on, or a child of one, and none
// changes a mark of the ring. It never reads a mark. In the end the program of its shard writes to
// each object. A schedule has one minute of faults and few objects, because requests through a proxy take
// long to simulate.
func TestSimulatedProxies(t *testing.T) {
	s := sharding()
	s.Duration = troubled
	s.Rule = programsWriteToTheirOwn
	s.Main = func(ctx context.Context, p *sim.Process) {
		p.World().State.Store(replicaNamed(p.Name), p)
		runReplicaWith(ctx, p, replicaConfig{
			shard: configMaps, sharder: configMaps, work: runProgram, quiet: 2 * time.Second,
		})
	}
	sim.Prove(t, s, schedules(t, 50))
}

// troubled is for how long things go wrong for proxies.
const troubled = time.Minute

// replicaNamed is the key of a process in the state of its world.
type replicaNamed string

// late is how long after a stop of its process a request may arrive that was checked before: it travels for
// the longest latency. No proxy can hold it back.
const late = 12 * time.Second

// programsWriteToTheirOwn is the rule of TestSimulatedProxies. A write to a child counts as one to its root.
func programsWriteToTheirOwn(w *sim.World) sim.Rule {
	var wrong atomic.Pointer[string]
	roots := map[types.UID]*apisim.Object{} // as they are
	w.State.Store("began", time.Now())
	w.State.Store(objectCount{}, 3)
	r := rand.New(rand.NewPCG(1, 1))
	time.AfterFunc(time.Second, func() {
		populate(w, r)
		distributeAgain(w, r)
	})
	w.Server.Observe(func(c apisim.Change) {
		o := cmp.Or(c.After, c.Before)
		root := c.Before
		switch o.GetKind() {
		case "ConfigMap":
			if roots[o.GetUID()] = c.After; c.After == nil {
				delete(roots, o.GetUID())
			}
		case "Pod":
			root = nil
			if owner := metav1.GetControllerOf(o); owner != nil {
				root = roots[owner.UID]
			}
		default:
			return
		}
		v, ok := w.State.Load(replicaNamed(c.Client))
		if !ok || !byProgram(c) {
			return
		}
		if what := misdeed(c, root, v.(*sim.Process).HasPausedWithin(late)); what != "" {
			wrong.CompareAndSwap(nil, &what)
		}
		w.State.Store(string(o.GetUID()), worked{identity(c.Client), time.Now()})
	})
	return func(_, other *sim.Process) (violation, excuse string) {
		if what := wrong.Load(); what != nil {
			return *what, ""
		}
		if other != nil {
			return "overlap", ""
		}
		return "", ""
	}
}

// distributeAgain has another ring move an object every two seconds until the faults are over. Programs must
// keep its marks as well.
func distributeAgain(w *sim.World, r *rand.Rand) {
	if !inTrouble(w, 0) {
		return
	}
	objects := objectsOf(w)
	if list, err := objects.List(context.Background(), metav1.ListOptions{LabelSelector: "user"}); err == nil {
		for _, i := range r.Perm(len(list.Items))[:min(1, len(list.Items))] {
			_, _ = objects.Patch(context.Background(), list.Items[i].Name, types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"labels":{%q:"%d"}}}`, api.ShardLabel("another"), r.IntN(1000)),
				metav1.PatchOptions{})
		}
	}
	time.AfterFunc(2*time.Second, func() { distributeAgain(w, r) })
}

// byProgram reports whether a change that a replica has made is one of its program. The shard and the sharder
// only write marks, and the history of the ring.
func byProgram(c apisim.Change) bool {
	o := cmp.Or(c.After, c.Before)
	if _, ours := o.GetLabels()["user"]; o.GetKind() == "ConfigMap" && !ours {
		return false
	}
	return c.Before == nil || c.After == nil || signature(c.Before) != signature(c.After)
}

// signature returns what programs have written into an object.
func signature(o *apisim.Object) string {
	message, _, _ := unstructured.NestedString(o.Content(), "status", "message")
	return by(o) + " " + message
}

// misdeed returns what is wrong with a write of a program to a root or to a child of it; empty: nothing. root is
// nil if it does not exist.
func misdeed(c apisim.Change, root *apisim.Object, stopped bool) string {
	if root != nil && !stopped {
		if what := foreign(root, c.Client); what != "" {
			return what
		}
	}
	switch {
	case c.After == nil:
	case c.Before == nil:
		if label := c.After.GetLabels()[api.ShardLabel(simulatedRing)]; label != identity(c.Client) {
			return fmt.Sprintf("%s creates %s with the label of %q", c.Client, c.After.GetName(), label)
		}
	case !maps.Equal(marksOf(c.Before), marksOf(c.After)):
		return fmt.Sprintf("%s changes the marks of %s from %v to %v", c.Client, c.After.GetUID(), marksOf(c.Before),
			marksOf(c.After))
	}
	return ""
}

// marksOf returns the labels and annotations of an object that rings write.
func marksOf(o metav1.Object) map[string]string {
	marks := map[string]string{}
	for _, all := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
		others := api.WithoutMarks(all)
		for key, value := range all {
			if _, ok := others[key]; !ok {
				marks[key] = value
			}
		}
	}
	return marks
}

// runProgram runs a program behind a proxy until it has ended, as bellwether run does. After ctx has ended it
// takes as long as the work of the process does. It may end earlier.
func runProgram(ctx context.Context, p *sim.Process, worker *shard.Shard, upstream *rest.Config) {
	through := must(proxy.New(proxy.Config{
		Shard: worker, Upstream: upstream, Mapper: mapper(), Resources: configMaps,
	}))
	var running sync.WaitGroup
	defer running.Wait()
	proxying, end := context.WithCancel(context.WithoutCancel(ctx)) // the program ends first
	defer end()
	ready := make(chan struct{})
	running.Go(func() { _ = through.Run(proxying, func() { close(ready) }) })
	select {
	case <-ready:
	case <-ctx.Done():
		return
	}
	living, kill := context.WithCancel(context.Background()) // which knows of no term
	defer kill()
	running.Go(func() {
		if n := p.Clock.Now().Wall.UnixNano(); n%3 == 0 && inTrouble(p.World(), crashes) {
			crashing, stop := context.WithTimeout(ctx, time.Duration(n)%crashes)
			defer stop()
			<-crashing.Done()
		} else {
			<-ctx.Done()
		}
		wait(living, p, p.Drain())
		kill()
	})
	config := &rest.Config{
		Host: "http://proxy.invalid", Transport: ringtest.Handled{Handler: through}, QPS: -1,
		ContentConfig: upstream.ContentConfig, Timeout: 20 * time.Second,
	}
	newProgram(p, coreclient.NewForConfigOrDie(config)).run(living)
}

// inTrouble reports whether things still go wrong after a while.
func inTrouble(w *sim.World, after time.Duration) bool {
	began, _ := w.State.Load("began")
	return time.Since(began.(time.Time))+after < troubled
}

// crashes is within what time a program crashes, if it does.
const crashes = troubled / 2

// program is a controller that knows nothing of shards.
type program struct {
	p               *sim.Process
	client          coreclient.CoreV1Interface
	roots, children cache.SharedIndexInformer
}

func newProgram(p *sim.Process, client coreclient.CoreV1Interface) *program {
	return &program{
		p: p, client: client,
		roots: cache.NewSharedIndexInformer(shard.ListerWatcher(client.ConfigMaps("ns"), client), &corev1.ConfigMap{},
			0, cache.Indexers{}),
		children: cache.NewSharedIndexInformer(shard.ListerWatcher(client.Pods("ns"), client), &corev1.Pod{}, 0,
			cache.Indexers{}),
	}
}

// run reconciles all objects that the program sees, again and again, until ctx has ended.
func (g *program) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, informer := range []cache.SharedIndexInformer{g.roots, g.children} {
		must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: g.read, UpdateFunc: func(_, o any) { g.read(o) },
		}))
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	for ctx.Err() == nil {
		for _, o := range slices.Concat(g.roots.GetStore().List(), g.children.GetStore().List()) {
			running.Go(func() { g.reconcile(ctx, o.(metav1.Object)) })
		}
		pause := resync
		if inTrouble(g.p.World(), 0) {
			pause = resync / 2
		}
		wait(ctx, g.p, pause)
	}
}

// read fails if what the program has read has marks.
func (g *program) read(o any) {
	if marks := marksOf(o.(metav1.Object)); len(marks) > 0 {
		g.p.Fail("has a program that reads marks: %v", marks)
	}
}

// reconcile writes to an object that the program has seen, soon and sometimes also up to a minute later. It
// may give up before a write has arrived.
func (g *program) reconcile(ctx context.Context, seen metav1.Object) {
	now := g.p.Clock.Now().Wall.UnixNano()
	r := rand.New(rand.NewPCG(uint64(now), xxhash.Sum64String(string(seen.GetUID()))))
	key := g.p.Name + " " + string(seen.GetUID()) // it does not work on the object alone, and need not
	g.p.Begin(key)
	defer g.p.End(key)
	delays := []time.Duration{time.Duration(r.IntN(3000)) * time.Millisecond}
	if r.IntN(8) == 0 {
		delays = append(delays, time.Duration(r.IntN(60_000))*time.Millisecond)
	}
	for i, delay := range delays {
		if wait(ctx, g.p, delay); ctx.Err() != nil {
			return
		}
		g.write(ctx, r, seen, fmt.Sprint(g.p.Name, "-", now, "-", i))
	}
}

// write makes one write to an object, or if it is refused, another one, as a controller that tries again.
func (g *program) write(ctx context.Context, r *rand.Rand, seen metav1.Object, value string) {
	patience := 20 * time.Second
	if r.IntN(3) == 0 {
		patience = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var got metav1.Object
	var err error
	switch o := seen.(type) {
	case *corev1.ConfigMap:
		if got, err = g.writeToRoot(ctx, r, o, value); err != nil {
			got, err = g.patchRoot(ctx, o.Name, rootPatches[0], value)
		}
	case *corev1.Pod:
		if got, err = g.writeToChild(ctx, r, o, value); err != nil {
			got, err = g.patchChild(ctx, o.Name, childPatches[0], value)
		}
	}
	if err == nil && got != nil {
		g.read(got)
	}
}

// patch is one that programs send, with a %q for what they write.
type patch struct {
	kind types.PatchType
	text string
}

var (
	rootPatches = []patch{
		{types.MergePatchType, `{"data":{"by":%q}}`},
		{types.StrategicMergePatchType, `{"data":{"by":%q}}`},
		{types.MergePatchType, `{"metadata":{"annotations":null},"data":{"by":%q}}`},
		{types.MergePatchType, `{"metadata":{"labels":{"` + api.ShardLabel(simulatedRing) + `":null}},` +
			`"data":{"by":%q}}`},
		{types.JSONPatchType, `[{"op":"add","path":"/data","value":{"by":%q}}]`},
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/labels","value":{"user":""}},` +
			`{"op":"add","path":"/data","value":{"by":%q}}]`},
		{types.JSONPatchType, `[{"op":"remove","path":"/metadata/annotations"},` +
			`{"op":"add","path":"/data","value":{"by":%q}}]`},
	}
	childPatches = []patch{
		{types.MergePatchType, `{"metadata":{"annotations":{"by":%q}}}`},
		{types.StrategicMergePatchType, `{"metadata":{"annotations":{"by":%q}}}`},
		{types.MergePatchType, `{"metadata":{"labels":null,"annotations":{"by":%q}}}`},
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/labels","value":{}},` +
			`{"op":"add","path":"/metadata/annotations","value":{"by":%q}}]`},
	}
)

// writeToRoot changes or deletes a root, and sometimes creates or deletes children of it before.
func (g *program) writeToRoot(ctx context.Context, r *rand.Rand, o *corev1.ConfigMap, value string) (
	metav1.Object, error,
) {
	roots, children := g.client.ConfigMaps("ns"), g.client.Pods("ns")
	switch n := r.IntN(40); {
	case n == 0:
		return nil, roots.Delete(ctx, o.Name, metav1.DeleteOptions{})
	case n < 3:
		_ = children.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{
			LabelSelector: labels.Set{"of": o.Name}.String(),
		})
	case n < 10 && g.childrenOf(o) < 2:
		child := childOf(o)
		child.Labels = map[string]string{"of": o.Name}
		if child, err := children.Create(ctx, child, metav1.CreateOptions{}); err == nil {
			g.read(child)
		}
	}
	data := map[string]string{"by": value}
	switch r.IntN(8) {
	case 0: // all metadata is made from nothing
		return roots.Update(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: o.Name, Labels: map[string]string{"user": ""}}, Data: data,
		}, metav1.UpdateOptions{})
	case 1:
		o = o.DeepCopy()
		o.Data = data
		return roots.Update(ctx, o, metav1.UpdateOptions{})
	}
	return g.patchRoot(ctx, o.Name, rootPatches[r.IntN(len(rootPatches))], value)
}

func (g *program) patchRoot(ctx context.Context, name string, p patch, value string) (metav1.Object, error) {
	return g.client.ConfigMaps("ns").Patch(ctx, name, p.kind, fmt.Appendf(nil, p.text, value), metav1.PatchOptions{})
}

// childrenOf returns how many children of a root the program sees.
func (g *program) childrenOf(root *corev1.ConfigMap) (count int) {
	for _, o := range g.children.GetStore().List() {
		if metav1.IsControlledBy(o.(*corev1.Pod), root) {
			count++
		}
	}
	return count
}

// writeToChild changes or deletes a child.
func (g *program) writeToChild(ctx context.Context, r *rand.Rand, o *corev1.Pod, value string) (
	metav1.Object, error,
) {
	children := g.client.Pods("ns")
	switch n := r.IntN(20); {
	case n == 0:
		return nil, children.Delete(ctx, o.Name, metav1.DeleteOptions{})
	case n < 4: // all metadata is made from nothing
		return children.Update(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: o.Name, OwnerReferences: o.OwnerReferences, Labels: o.Labels,
			Annotations: map[string]string{"by": value},
		}}, metav1.UpdateOptions{})
	case n < 7:
		o = o.DeepCopy()
		o.Annotations = map[string]string{"by": value}
		return children.Update(ctx, o, metav1.UpdateOptions{})
	case n < 10:
		o = o.DeepCopy()
		o.Status.Message = value
		return children.UpdateStatus(ctx, o, metav1.UpdateOptions{})
	}
	return g.patchChild(ctx, o.Name, childPatches[r.IntN(len(childPatches))], value)
}

func (g *program) patchChild(ctx context.Context, name string, p patch, value string) (metav1.Object, error) {
	return g.client.Pods("ns").Patch(ctx, name, p.kind, fmt.Appendf(nil, p.text, value), metav1.PatchOptions{})
}
