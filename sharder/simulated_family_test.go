package sharder_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// births has the children of a world, and the work on their roots.
type births struct {
	mu    sync.Mutex
	alive map[types.UID]birth
	work  map[types.UID]map[*sim.Process]*shardlease.Term // under way, by root
	staff map[string]*sim.Process                         // those that have worked, by name
	lost  string                                          // what went wrong with a child, or ""
	fresh *freshness
	// holders are those of Leases.
	holders map[string]string
	moved   map[types.UID]time.Time // when roots got another record
}

type birth struct {
	root    types.UID
	name    string
	by      string // client that created it
	stamped bool
	edited  bool // a user has changed its label or its root, so work may not see it
	late    bool // its creator had lost its Lease, and has stood still meanwhile
}

const user = "somebody"

// birthsOf returns the births of a world. The rule of the world passes every change to see.
func birthsOf(w *sim.World) *births {
	b, _ := w.State.LoadOrStore("births", &births{
		staff: map[string]*sim.Process{},
		alive: map[types.UID]birth{}, work: map[types.UID]map[*sim.Process]*shardlease.Term{}, fresh: newFreshness(),
		holders: map[string]string{}, moved: map[types.UID]time.Time{},
	})
	return b.(*births)
}

// see records a change of an object.
func (b *births) see(c apisim.Change) {
	b.fresh.see(c)
	o := c.After
	if o == nil {
		o = c.Before
	}
	owner := metav1.GetControllerOf(o)
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.After == nil {
		delete(b.work, o.GetUID())
	}
	if o.GetKind() == "Lease" {
		b.holders[o.GetName()], _, _ = unstructured.NestedString(o.Content(), "spec", "holderIdentity")
	}
	label := api.ShardLabel(simulatedRing)
	if c.After != nil && c.Before != nil &&
		c.Before.GetAnnotations()[recordAnnotation] != c.After.GetAnnotations()[recordAnnotation] {
		b.moved[o.GetUID()] = time.Now()
	}
	if o.GetKind() != "Pod" || owner == nil {
		return
	}
	known := b.alive[o.GetUID()]
	switch {
	case c.After == nil:
		delete(b.alive, o.GetUID())
		return
	case c.Before == nil:
		known = birth{root: owner.UID, name: o.GetName(), by: c.Client, stamped: o.GetLabels()[label] != ""}
		known.late = b.late(known)
	case c.Client == user && c.Before.GetLabels()[label] != c.After.GetLabels()[label]:
		known.edited = true
	case owner.UID != known.root:
		known.root, known.edited = owner.UID, true
	default:
		b.leaves(known, c)
	}
	b.alive[o.GetUID()] = known
}

// late reports whether a child was created when another could already work on its root. Only a process
// that has stood still between its last check and its request does that, and no client can prevent it.
// If another one does, that is recorded as lost.
func (b *births) late(child birth) bool {
	shard := identity(child.by)
	if child.by == user || b.holders[shard] == shard {
		return false
	}
	if p := b.staff[child.by]; p != nil && p.HasPaused() {
		return true
	}
	b.lost = fmt.Sprintf("%s creates child %s, and its Lease is held by %q", child.by, child.name, b.holders[shard])
	return false
}

// leaves records a child that is taken from a shard while the shard works on its root, because the
// work would lose sight of it. A term that is over does not count: its objects may go to other
// shards. Nor does a child count if a user has changed its label.
func (b *births) leaves(child birth, c apisim.Change) {
	label := api.ShardLabel(simulatedRing)
	from, to := c.Before.GetLabels()[label], c.After.GetLabels()[label]
	if from == to || from == "" || child.edited {
		return
	}
	for p, term := range b.work[child.root] {
		if identity(p.Name) != from {
			continue
		}
		go func() { // the server waits for see, and a term may wait for the server
			if term.Err() != nil {
				return
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.lost = fmt.Sprintf("%s moves child %s from %q to %q while %s works on its root %s", c.Client, child.name,
				from, to, p.Name, child.root)
		}()
	}
}

// rests reports whether a root has been with its shard for longer than any work on a child takes. If it has
// not, its child may have come with it while work on the child, as one of another root, went on.
func (b *births) rests(root types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.moved[root]) > time.Minute
}

// begin records work on a root, or on a child of it, until end is called.
func (b *births) begin(root types.UID, p *sim.Process, term *shardlease.Term) (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.work[root] == nil {
		b.work[root] = map[*sim.Process]*shardlease.Term{}
	}
	b.work[root][p], b.staff[p.Name] = term, p
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.work[root], p)
	}
}

// loss returns what leaves or late have recorded, or an empty string.
func (b *births) loss() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

// unseen returns a child of a root that is not shown to the work that begins in p. The work of
// another shard, or of an earlier process of the same shard, has created the child. A child does
// not count if a user has created it or changed its label, or if it was created too late.
func (b *births) unseen(root types.UID, p *sim.Process, shown func(name string) bool) (child birth, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, child := range b.alive {
		switch {
		case child.root != root, child.by == user, child.by == p.Name, child.edited, child.late:
		case identity(child.by) == identity(p.Name) && !child.stamped: // the sharder has to label it first
		case !shown(child.name):
			return child, true
		}
	}
	return birth{}, false
}

// hasChildren reports whether work creates children for a root. It does so for a third of the
// roots.
func hasChildren(root types.UID) bool {
	sum := 0
	for _, b := range []byte(root) {
		sum += int(b)
	}
	return sum%3 == 0
}

// brood is the part of a controller that creates, deletes and works on children.
type brood struct {
	p        *sim.Process
	shard    *shard.Shard
	client   coreclient.PodInterface
	informer cache.SharedIndexInformer
}

func newBrood(p *sim.Process, worker *shard.Shard, client kubernetes.Interface) *brood {
	pods := client.CoreV1().Pods("ns")
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := pods.Watch(ctx, o)
			if err != nil {
				return nil, err
			}
			return delayed(w, p), nil
		},
	}
	return &brood{p, worker, pods, worker.NewInformer(lists, &corev1.Pod{}, resync, cache.Indexers{})}
}

// delayed returns a watch with late events, so that caches of different resources are not in step.
// Events that come together are late together: a lag for each would make a list of a few dozen
// longer than the client's timeout, and the informer would never sync.
func delayed(w watch.Interface, p *sim.Process) watch.Interface {
	told := make(chan watch.Event)
	late := watch.NewProxyWatcher(told)
	go func() {
		defer close(told)
		defer w.Stop()
		type arrival struct {
			event watch.Event
			due   time.Time
		}
		var arrived []arrival
		for events := w.ResultChan(); events != nil || len(arrived) > 0; {
			var due <-chan time.Time
			stop := func() bool { return false }
			if len(arrived) > 0 {
				lag := p.Clock.NewTimer(time.Until(arrived[0].due))
				due, stop = lag.C(), lag.Stop
			}
			select {
			case e, ok := <-events:
				if !ok {
					events = nil
					break
				}
				now := p.Clock.Now().Wall
				lag := time.Duration(now.UnixNano()%4) * 300 * time.Millisecond
				if _, slow := p.World().State.Load(slowWatches{}); slow && now.Unix()/30%3 > 0 {
					lag += 12 * time.Second // long enough for a root to leave and to come back
				}
				arrived = append(arrived, arrival{e, time.Now().Add(lag)})
			case <-due:
				select {
				case told <- arrived[0].event:
				case <-late.StopChan():
					return
				}
				arrived = arrived[1:]
			case <-late.StopChan():
				stop()
				return
			}
			stop()
		}
	}()
	return late
}

// check fails unless the cache shows what was done to the children before this work.
func (b *brood) check(ctx context.Context, root types.UID) {
	shown := map[types.UID]string{}
	for _, item := range b.informer.GetStore().List() {
		if o := item.(*corev1.Pod); metav1.GetControllerOf(o).UID == root {
			shown[o.UID] = o.ResourceVersion
		}
	}
	checkFresh(ctx, b.p, root, shown)
	child, ok := birthsOf(b.p.World()).unseen(root, b.p, func(name string) bool {
		_, exists, _ := b.informer.GetStore().GetByKey("ns/" + name)
		return exists
	})
	term, _ := shardlease.TermFrom(ctx)
	if ok && term.Err() == nil { // the process has not stopped since work began
		b.p.Fail("begins to work on %s, and does not see child %s, which %s has created (stamped: %t)", root,
			child.name, child.by, child.stamped)
	}
}

// tend creates or changes a child of a root, or deletes all. It keeps up to two.
func (b *brood) tend(ctx context.Context, root *corev1.ConfigMap, now int64) error {
	var children []*corev1.Pod
	for _, item := range b.informer.GetStore().List() {
		if o := item.(*corev1.Pod); metav1.IsControlledBy(o, root) {
			children = append(children, o)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // a timed-out request may still arrive
	defer cancel()
	switch n := len(children); {
	case n > 2, n > 0 && now%3 == 0:
		for _, child := range children {
			if err := b.client.Delete(ctx, child.Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
		return nil
	case n < 2:
		child := childOf(root)
		if now%4 != 0 {
			if err := b.shard.Stamp(child); err != nil {
				b.p.Fail("%v", err)
			}
		}
		_, err := b.client.Create(ctx, child, metav1.CreateOptions{})
		return err
	}
	_, err := b.client.Patch(ctx, children[0].Name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{"by":"%s%d"}}}`, b.p.Name, now), metav1.PatchOptions{})
	return err
}

func childOf(root *corev1.ConfigMap) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		GenerateName: root.Name + "-",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(root,
			corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
	}}
}

// control runs a controller of children until ctx ends.
func (b *brood) control(ctx context.Context) error {
	return shard.RunController(ctx, b.shard, b.informer, 8, func(ctx context.Context, child *corev1.Pod) error {
		root := metav1.GetControllerOf(child).UID
		keys := []types.UID{root}
		if birthsOf(b.p.World()).rests(root) {
			keys = append(keys, child.UID) // which may get another root meanwhile
		}
		for _, key := range keys {
			b.p.Begin(string(key))
			defer b.p.End(string(key))
		}
		b.check(ctx, root)
		term, _ := shardlease.TermFrom(ctx)
		chance := b.p.Clock.Now().Wall.UnixNano()
		ticks := 1 + chance%6
		if chance%7 == 0 { // long enough for the child to get another root, and to go to another shard
			ticks *= 10
		}
		for range ticks {
			tick := b.p.Clock.NewTimer(500 * time.Millisecond)
			select {
			case <-ctx.Done():
				tick.Stop()
				return context.Cause(ctx)
			case <-tick.C():
			}
			if term.Err() != nil {
				return term.Err()
			}
			for _, key := range keys {
				b.p.Act(string(key))
			}
			b.p.World().State.Store(string(child.UID), worked{identity(b.p.Name), time.Now()})
		}
		return nil
	})
}

func childrenOf(w *sim.World) coreclient.PodInterface {
	return coreclient.NewForConfigOrDie(w.Connect(user).Config()).Pods("ns")
}

// meddleWithChildren does what users do: it creates and deletes children, and edits their labels.
func meddleWithChildren(w *sim.World, r *rand.Rand, roots []corev1.ConfigMap) {
	ctx, client := context.Background(), childrenOf(w)
	root := &roots[r.IntN(len(roots))]
	if r.IntN(4) == 0 && hasChildren(root.UID) {
		_, _ = client.Create(ctx, childOf(root), metav1.CreateOptions{})
		return
	}
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return
	}
	o := &list.Items[r.IntN(len(list.Items))]
	label := api.ShardLabel(simulatedRing)
	switch r.IntN(4) {
	case 0:
		_ = client.Delete(ctx, o.Name, metav1.DeleteOptions{})
	case 1:
		_, _ = client.Patch(ctx, o.Name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, label), metav1.PatchOptions{})
	case 2:
		_, _ = client.Patch(ctx, o.Name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, label, string(rune('a'+r.IntN(4)))),
			metav1.PatchOptions{})
	case 3:
		w.Server.Collect()
	}
}

// adopt gives some children to other roots.
func adopt(w *sim.World, r *rand.Rand) {
	ctx, client := context.Background(), childrenOf(w)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return
	}
	roots, err := objectsOf(w).List(ctx, metav1.ListOptions{LabelSelector: "user"})
	if err != nil || len(roots.Items) == 0 {
		return
	}
	for _, i := range r.Perm(len(list.Items))[:(len(list.Items)+1)/2] {
		o := &list.Items[i]
		o.OwnerReferences = childOf(&roots.Items[r.IntN(len(roots.Items))]).OwnerReferences
		_, _ = client.Update(ctx, o, metav1.UpdateOptions{})
	}
}

// idle is how long a child may wait for the work on others.
const idle = 4 * resync

// everyChildIsWithItsRoot returns an error unless each child is with its root, and its shard works
// on it. This holds when there has been no fault for a while.
func everyChildIsWithItsRoot(w *sim.World, roots []corev1.ConfigMap) error {
	list, err := childrenOf(w).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	label := api.ShardLabel(simulatedRing)
	of := map[types.UID]string{}
	for _, root := range roots {
		of[root.UID] = root.Labels[label]
	}
	var problems []error
	for _, o := range list.Items {
		shard, ok := of[metav1.GetControllerOf(&o).UID]
		last, _ := w.State.Load(string(o.UID))
		by, _ := last.(worked)
		isNew := time.Since(o.CreationTimestamp.Time) < idle // of work that goes on
		if ok && !isNew && (shard != o.Labels[label] || by.identity != shard || time.Since(by.at) > idle) {
			problems = append(problems, fmt.Errorf("child %s (%s) is not looked after: it has labels %v, its root is "+
				"with %q, last worked on by %q %v ago",
				o.Name, o.UID, o.Labels, shard, by.identity, time.Since(by.at)))
		}
	}
	return errors.Join(problems...)
}
