package sharder_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

var serviceAccountKind = kind{
	Resource: schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, Kind: "ServiceAccount",
	namespaced: true,
}

// maxLag is how late watches are at most.
const maxLag = 3 * time.Second

// TestNoMovedObjectBeginsStale has objects move between shards whose watches are late by up to 3 s.
// The first work of a new owner must see what the former owner has written, in the root and in its
// children of two resources. Each shard also runs plain informers with watches that are as late.
// They show what a controller without the barrier of the shard sees when an object arrives.
func TestNoMovedObjectBeginsStale(t *testing.T) {
	t.Parallel()
	const roots, firsts = 100, 100
	c := newCrowd(t)
	c.patience = 2 * time.Minute
	c.children = []kind{secretKind, serviceAccountKind}
	c.create(roots)
	r := &relay{c: c, batons: map[types.UID]*baton{}}
	c.start("sharder", "-without-shard")
	stopA, stopB := r.start("a", maxLag), r.start("b", maxLag)
	defer stopA()
	defer stopB()
	members := []string{"a", "b"}
	r.requireTurns(members...)
	for round := 0; min(r.ours.all(), r.plain.all()) < firsts && round < 8; round++ {
		guest := fmt.Sprint("guest-", round)
		if round%2 == 0 { // it leaves soon: objects come back to shards that have not seen them go
			leave := r.start(guest, 0)
			c.eventually(func() bool { return r.over(guest) >= 5 }, "nothing moves")
			leave()
		} else {
			leave := r.start(guest, maxLag)
			r.requireTurns("a", "b", guest)
			leave()
		}
		r.requireTurns(members...)
	}
	stopA()
	stopB() // no handler runs any more
	t.Logf("with the shard: %v; plain informers: %v", &r.ours, &r.plain)
	assert.GreaterOrEqual(t, r.ours.all(), firsts)
	assert.Empty(t, r.ours.stale)
	assert.GreaterOrEqual(t, r.plain.all(), firsts)
	assert.NotEmpty(t, r.plain.stale)
}

// relay is objects that shards pass to each other.
type relay struct {
	c           *cluster
	ours, plain verdict

	mu     sync.Mutex
	batons map[types.UID]*baton
}

// verdict counts first looks at objects that have moved.
type verdict struct {
	mu    sync.Mutex
	fine  int
	stale []string
}

func (v *verdict) note(problem string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if problem == "" {
		v.fine++
	} else {
		v.stale = append(v.stale, problem)
	}
}

func (v *verdict) all() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.fine + len(v.stale)
}

func (v *verdict) String() string {
	n := v.all()
	kinds := map[string]int{}
	for _, problem := range v.stale {
		kind, _, _ := strings.Cut(problem, ":")
		kinds[kind]++
	}
	return fmt.Sprintf("%d of %d first looks were stale %v", len(v.stale), n, kinds)
}

// baton is what owners of a root have done to it and to its children, as far as the API server has
// acknowledged it.
type baton struct {
	mu     sync.Mutex
	owner  string // the last one whose work has begun
	turn   int    // of the owner
	over   bool   // the turn
	now    state
	before state // the turn
}

// state is a root and its children. Keys are <resource>/<name>.
type state struct {
	turns   map[string]int // in which they were written last
	deleted map[string]bool
}

// missing says what of a state is not shown, empty if everything is. Others may have changed it since.
func (s state) missing(shown map[string]int, since state) string {
	for key, turn := range s.turns {
		seen, ok := shown[key]
		switch {
		case !ok && !since.deleted[key]:
			return "not there: " + key
		case ok && seen < turn:
			return fmt.Sprintf("old: %s of turn %d instead of %d", key, seen, turn)
		}
	}
	for key := range s.deleted {
		if _, ok := shown[key]; ok {
			return "deleted: " + key
		}
	}
	return ""
}

func (r *relay) baton(root types.UID) *baton {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.batons[root]
	if b == nil {
		b = &baton{now: state{map[string]int{}, map[string]bool{}}}
		r.batons[root] = b
	}
	return b
}

// take makes a shard the owner of a root, if it is not yet, and returns the number of its turn. It
// calls judge, unless the shard is the first owner.
func (b *baton) take(shard string, judge func(former, since state)) (turn int, taken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owner == shard {
		return 0, false
	}
	if b.owner != "" {
		judge(b.now, b.now)
	}
	b.owner = shard
	b.before = state{maps.Clone(b.now.turns), maps.Clone(b.now.deleted)}
	b.turn++
	b.over = false
	return b.turn, true
}

// pass ends the turn.
func (b *baton) pass() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
}

// arrive judges the arrival of a root at a shard. last is the former turn, 0 if there is none.
func (b *baton) arrive(shard string, last int, judge func(former, since state)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case last == 0:
	case b.turn == last:
		judge(b.now, b.now)
	case b.turn == last+1 && b.owner == shard: // its work has begun
		judge(b.before, b.now)
	}
}

func (b *baton) written(key string, turn int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now.turns[key] = turn
}

// deletes says that a child may be deleted soon, and gone that it is.
func (b *baton) deletes(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.now.turns, key)
}

func (b *baton) gone(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now.deleted[key] = true
}

// children returns the names of the children of a resource, sorted.
func (b *baton) children(k kind) (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.now.turns {
		if name, ok := strings.CutPrefix(key, k.Resource.Resource+"/"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// requireTurns waits until the turn of each root with its owner among these shards is over.
func (r *relay) requireTurns(members ...string) {
	r.c.t.Helper()
	all := r.c.list()
	var waiting []string
	r.c.eventually(func() bool {
		waiting = waiting[:0]
		for _, o := range all {
			b := r.baton(o.GetUID())
			b.mu.Lock()
			if b.owner != o.owner(members...) || !b.over {
				waiting = append(waiting, o.GetName())
			}
			b.mu.Unlock()
		}
		return len(waiting) == 0
	}, "no turn among %q: %q", members, &waiting)
}

// over returns how many turns with a shard are over, and were the last ones.
func (r *relay) over(shard string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, b := range r.batons {
		b.mu.Lock()
		if b.owner == shard && b.over {
			n++
		}
		b.mu.Unlock()
	}
	return n
}

// racer is a shard of a relay.
type racer struct {
	*relay
	name   string
	maxLag time.Duration
	shard  *shard.Shard
	config *rest.Config // of work
	work   dynamic.Interface
	stores map[string]cache.Store // of children, by resource
	others map[string]cache.Store // the same, of plain informers
}

// start starts a shard, which leaves when stop is called. Its watches are late by up to maxLag.
func (r *relay) start(name string, maxLag time.Duration) (stop func()) {
	t := r.c.t
	t.Helper()
	client, err := kubernetes.NewForConfig(shardlease.LeaseConfig(shared.Admin()))
	require.NoError(t, err)
	lease, err := shardlease.New(client, shardlease.Config{
		Namespace: r.c.namespace, Ring: ringName, Identity: name, LeaseDuration: r.c.duration,
		OnLost: func(err error) { t.Error(err) },
	})
	require.NoError(t, err)
	c := &racer{
		relay: r, name: name, maxLag: maxLag,
		stores: map[string]cache.Store{}, others: map[string]cache.Store{},
	}
	c.config = rest.CopyConfig(shared.Admin())
	c.config.Wrap(lease.WrapTransport)
	c.work, err = dynamic.NewForConfig(c.config)
	require.NoError(t, err)
	objects, err := metadata.NewForConfig(c.config)
	require.NoError(t, err)
	mapper := meta.NewDefaultRESTMapper(nil)
	children := make([]schema.GroupVersionResource, 0, len(r.c.children))
	for _, k := range append(r.c.children, configMaps) {
		mapper.Add(k.Resource.GroupVersion().WithKind(k.Kind), meta.RESTScopeNamespace)
	}
	for _, k := range r.c.children {
		children = append(children, k.Resource)
	}
	c.shard, err = shard.New(objects, mapper, lease, shard.Config{Resources: []api.Resource{
		{GVR: configMaps.Resource, Namespaces: []string{r.c.namespace}, Children: children},
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		err := lease.Run(ctx, c.run)
		if t.Context().Err() == nil {
			assert.NoError(t, err)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// run runs the controller of the shard, and the plain informers.
func (c *racer) run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for _, k := range c.c.children {
		informer := c.informer(k, c.shard.NewInformer)
		c.stores[k.Resource.Resource] = informer.GetStore()
		running.Go(func() { informer.RunWithContext(ctx) })
		plain := c.informer(k, cache.NewSharedIndexInformer)
		c.others[k.Resource.Resource] = plain.GetStore()
		running.Go(func() { plain.RunWithContext(ctx) })
	}
	arrivals := c.informer(configMaps, cache.NewSharedIndexInformer)
	_, err := arrivals.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		root := o.(*unstructured.Unstructured)
		c.baton(root.GetUID()).arrive(c.name, turnOf(root), func(former, since state) {
			c.plain.note(former.missing(shownIn(root, c.others), since))
		})
	}})
	if err != nil {
		return err
	}
	running.Go(func() { arrivals.RunWithContext(ctx) })
	return shard.RunController(ctx, c.shard, c.informer(configMaps, c.shard.NewInformer), 8, c.reconcile)
}

type newInformer func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer

// informer returns an informer of the shard's objects of a kind. Its watches are late, by another
// lag each second.
func (c *racer) informer(k kind, create newInformer) cache.SharedIndexInformer {
	config := rest.CopyConfig(c.config)
	var lag, until atomic.Int64
	config.Wrap(e2e.LateWatches(func() time.Duration {
		if now := time.Now().UnixNano(); now > until.Load() {
			until.Store(now + int64(time.Second))
			lag.Store(int64(rand.N(1 + c.maxLag)))
		}
		return time.Duration(lag.Load())
	}))
	client, err := dynamic.NewForConfig(config)
	if !assert.NoError(c.c.t, err) {
		return nil
	}
	objects := client.Resource(k.Resource).Namespace(c.c.namespace)
	example := &unstructured.Unstructured{}
	example.SetGroupVersionKind(k.Resource.GroupVersion().WithKind(k.Kind))
	mine := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector = c.shard.Selector().String()
		return o
	}
	return create(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, mine(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, mine(o))
		},
	}, example, 0, cache.Indexers{})
}

// turnAnnotation is on everything that work has written.
const turnAnnotation = "turn"

func turnOf(o *unstructured.Unstructured) int {
	turn, _ := strconv.Atoi(o.GetAnnotations()[turnAnnotation]) // 0 if there is none
	return turn
}

// shownIn returns the turns in which a copy of a root, and its children in these caches, were written.
func shownIn(root *unstructured.Unstructured, stores map[string]cache.Store) map[string]int {
	shown := map[string]int{configMaps.Resource.Resource + "/" + root.GetName(): turnOf(root)}
	for resource, store := range stores {
		for _, item := range store.List() {
			if o := item.(*unstructured.Unstructured); metav1.IsControlledBy(o, root) {
				shown[resource+"/"+o.GetName()] = turnOf(o)
			}
		}
	}
	return shown
}

// reconcile does the work of the shard's turn on a root, once.
func (c *racer) reconcile(ctx context.Context, root *unstructured.Unstructured) error {
	b := c.baton(root.GetUID())
	turn, taken := b.take(c.name, func(former, since state) {
		c.ours.note(former.missing(shownIn(root, c.stores), since))
	})
	if !taken {
		return nil
	}
	defer b.pass()
	sum := fnv.New32()
	_, _ = sum.Write([]byte(root.GetName()))
	err := c.write(ctx, b, configMaps, root.GetName(), turn)
	for i, k := range c.c.children {
		if err == nil {
			err = c.tend(ctx, b, root, k, turn, turn+int(sum.Sum32()>>4)+i)
		}
	}
	if ctx.Err() == nil { // a failed turn is not repeated: what the caches show of it is the shard's own
		assert.NoError(c.c.t, err)
	}
	return nil
}

// tend creates children, changes one and deletes another, or deletes all, by a number.
func (c *racer) tend(ctx context.Context, b *baton, root *unstructured.Unstructured, k kind, turn, number int) error {
	names := b.children(k)
	objects := c.work.Resource(k.Resource).Namespace(c.c.namespace)
	remove := func(names []string) error {
		for _, name := range names {
			key := k.Resource.Resource + "/" + name
			b.deletes(key)
			if err := objects.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			b.gone(key)
		}
		return nil
	}
	switch {
	case len(names) > 0 && number%2 == 0:
		return remove(names)
	case len(names) > 1:
		if err := c.write(ctx, b, k, names[0], turn); err != nil {
			return err
		}
		return remove(names[1:])
	}
	for i := range 2 {
		child := &unstructured.Unstructured{}
		child.SetGroupVersionKind(k.Resource.GroupVersion().WithKind(k.Kind))
		child.SetName(fmt.Sprintf("%s-%d-%d", root.GetName(), turn, i))
		child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(root, root.GroupVersionKind())})
		child.SetAnnotations(map[string]string{turnAnnotation: strconv.Itoa(turn)})
		if err := c.shard.Stamp(child); err != nil {
			return err
		}
		if _, err := objects.Create(ctx, child, metav1.CreateOptions{}); err != nil {
			return err
		}
		b.written(k.Resource.Resource+"/"+child.GetName(), turn)
	}
	return nil
}

// write writes the number of a turn into an object.
func (c *racer) write(ctx context.Context, b *baton, k kind, name string, turn int) error {
	_, err := c.work.Resource(k.Resource).Namespace(c.c.namespace).Patch(ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, turnAnnotation, turn), metav1.PatchOptions{})
	if err == nil {
		b.written(k.Resource.Resource+"/"+name, turn)
	}
	return err
}
