package shard

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// cluster is an API server with an administrator, who acts as the sharder.
type cluster struct {
	t      *testing.T
	server *apisim.Server
	admin  kubernetes.Interface
	sniff  func(*http.Request) // called with each request of the shards; may be nil
	keys   protocol.Keys
	mapper meta.RESTMapper // of shards
}

func newCluster(t *testing.T) *cluster {
	server := apisim.NewServer()
	admin, err := kubernetes.NewForConfig(server.Client("admin").Config())
	require.NoError(t, err)
	return &cluster{
		t: t, server: server, admin: admin, keys: protocol.KeysOf("r").Of(ringtest.ConfigMaps.GroupResource()),
		mapper: ringtest.TestMapper(),
	}
}

// create makes a ConfigMap without an owner.
func (w *cluster) create(name string) *corev1.ConfigMap {
	o, err := w.admin.CoreV1().ConfigMaps("default").Create(
		w.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{},
	)
	require.NoError(w.t, err)
	return o
}

func (w *cluster) get(name string) *corev1.ConfigMap {
	o, err := w.admin.CoreV1().ConfigMaps("default").Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return o
}

// set patches the labels and, unless it is nil, the record.
func (w *cluster) set(name, shard string, drained bool, r *protocol.Record) *corev1.ConfigMap {
	o, err := w.admin.CoreV1().ConfigMaps("default").Patch(
		w.t.Context(), name, types.MergePatchType, w.keys.MergePatch("", "", shard, drained, r), metav1.PatchOptions{},
	)
	require.NoError(w.t, err)
	return o
}

// acknowledged asserts that an object was handed over: no label, no drain, and a free record.
func (w *cluster) acknowledged(name string) {
	w.t.Helper()
	o := w.get(name)
	assert.NotContains(w.t, o.Labels, w.keys.Shard)
	assert.NotContains(w.t, o.Labels, w.keys.Drain)
	rec, ok := w.keys.RecordOf(o)
	assert.True(w.t, ok)
	assert.Equal(w.t, protocol.StateFree, rec.State)
}

// drainedStill asserts that an object was not handed over.
func (w *cluster) drainedStill(name string) {
	w.t.Helper()
	o := w.get(name)
	assert.Equal(w.t, "a", o.Labels[w.keys.Shard])
	assert.Contains(w.t, o.Labels, w.keys.Drain)
}

// replica is a process of the shard "a".
type replica struct {
	*cluster
	ctx      context.Context //nolint:containedctx // that of the work of the lease
	conn     *apisim.Client
	lease    *shardlease.Lease
	shard    *Shard
	informer cache.SharedIndexInformer
	running  sync.WaitGroup
	stop     func() // the informer that was started last

	mu   sync.Mutex
	told []string // guarded by mu: the calls of the hooks
}

func (w *cluster) replica(config Config) *replica { return w.replicaWith(nil, config) }

func (w *cluster) replicaWith(clock shardlease.Clock, config Config) *replica {
	return w.replicaOf("a", clock, config)
}

func (w *cluster) replicaOf(identity string, clock shardlease.Clock, config Config) *replica {
	r := &replica{cluster: w, conn: w.server.Client(identity)}
	leases, err := kubernetes.NewForConfig(w.server.Client(identity + "-lease").Config())
	require.NoError(w.t, err)
	r.lease, err = shardlease.New(
		leases, shardlease.Config{
			Namespace: "default", Ring: "r", Identity: identity, OnLost: func(error) {},
			Clock: clock,
		},
	)
	require.NoError(w.t, err)
	client, err := metadata.NewForConfig(r.guarded())
	require.NoError(w.t, err)
	tell := func(what string, o api.ObjectRef, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			what = "failed " + what
		}
		r.told = append(r.told, what+" "+o.Name)
	}
	if config.Resources == nil {
		config.Resources = []api.Resource{{GVR: ringtest.ConfigMaps}}
	}
	config.Hooks = Hooks{
		OnDrained: func(o api.ObjectRef, _ time.Duration, err error) { tell("drain", o, err) },
		OnBounced: func(o api.ObjectRef, err error) { tell("bounce", o, err) },
	}
	r.shard, err = New(client, w.mapper, r.lease, config)
	require.NoError(w.t, err)
	return r
}

// within calls f in the work function of shard "a", with a running informer of ConfigMaps, and
// returns the error of the lease's Run.
func (w *cluster) within(f func(r *replica)) error { return w.replica(Config{}).run(f) }

func (r *replica) run(f func(r *replica)) error {
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	return r.lease.Run(ctx, func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer r.running.Wait()
		defer stop()
		defer cancel()
		r.ctx = ctx
		r.informer = r.start()
		f(r)
		return nil
	})
}

// guarded returns the configuration of clients that the lease guards.
func (r *replica) guarded() *rest.Config {
	c := r.conn.Config()
	c.Wrap(r.lease.WrapTransport)
	if r.sniff != nil {
		c.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return ringtest.RoundTripper(func(q *http.Request) (*http.Response, error) {
				r.sniff(q)
				return next.RoundTrip(q)
			})
		})
	}
	return c
}

func (r *replica) client() kubernetes.Interface {
	client, err := kubernetes.NewForConfig(r.guarded())
	require.NoError(r.t, err)
	return client
}

// start runs one more informer, and returns when it has synced.
func (r *replica) start() cache.SharedIndexInformer { return r.startWith(listWatch(r.client())) }

func (r *replica) startWith(lw cache.ListerWatcher) cache.SharedIndexInformer {
	informer := r.shard.NewInformer(lw, &corev1.ConfigMap{}, 0, cache.Indexers{})
	ctx, stop := context.WithCancel(r.ctx)
	r.stop = stop
	r.running.Go(func() { informer.RunWithContext(ctx) })
	require.True(r.t, cache.WaitForCacheSync(r.ctx.Done(), informer.HasSynced))
	return informer
}

// lagging runs one more informer, whose watch events arrive with this delay.
func (r *replica) lagging(by time.Duration) cache.SharedIndexInformer {
	conn := r.conn
	defer func() { r.conn = conn }()
	r.conn = r.server.Client("a-cache")
	informer := r.start()
	r.conn.Inject(apisim.Faults{WatchLag: by})
	return informer
}

func listWatch(client kubernetes.Interface) cache.ListerWatcher {
	return ListerWatcher(client.CoreV1().ConfigMaps(""), client)
}

// owned returns a record that names this replica.
func (r *replica) owned(o metav1.Object, left ...protocol.OwnerEpoch) *protocol.Record {
	rec := r.ownedBy("a", o)
	rec.Left = left
	return rec
}

func (r *replica) ownedBy(identity string, o metav1.Object) *protocol.Record {
	term, err := r.lease.Term()
	require.NoError(r.t, err)
	e := term.Epoch()
	return &protocol.Record{
		UID: o.GetUID(), Shard: identity, LeaseUID: e.LeaseUID, Epoch: e.Number, State: protocol.StateOwned,
		ChildFloor: map[string]string{"pods": ""},
	}
}

// assign gives an object to this replica. Caches that do not lag have seen it when assign returns.
func (r *replica) assign(name string) *corev1.ConfigMap {
	o := r.set(name, "a", false, r.owned(r.get(name)))
	synctest.Wait()
	return o
}

func (r *replica) cached(name string) *corev1.ConfigMap {
	o, exists, err := r.informer.GetStore().GetByKey("default/" + name)
	require.NoError(r.t, err)
	if !exists {
		return nil
	}
	return o.(*corev1.ConfigMap)
}

// do calls Do with work that does nothing.
func (r *replica) do(o *corev1.ConfigMap) error {
	return r.shard.Do(r.ctx, o, func(context.Context) error { return nil })
}

// known returns the shard's state of an object.
func (r *replica) known(o *corev1.ConfigMap) workState {
	return r.shard.tracker.get(protocol.AddressOf(ringtest.ConfigMaps, o))
}

// remembered returns the objects that the shard has a state of.
func (r *replica) remembered() []protocol.Address {
	r.shard.tracker.mu.Lock()
	defer r.shard.tracker.mu.Unlock()
	return slices.Collect(maps.Keys(r.shard.tracker.roots))
}

// work begins work on an object. The work goes on until its context ends or the returned function
// is called, which returns the result of Do.
func (r *replica) work(o *corev1.ConfigMap) (end func() error) {
	begun, finish, result := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ctx := r.ctx
	go func() {
		result <- r.shard.Do(ctx, o, func(ctx context.Context) error {
			close(begun)
			select {
			case <-finish:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	synctest.Wait()
	select {
	case <-begun:
	default:
		require.Fail(r.t, "work has not begun", "%v", <-result)
	}
	return func() error {
		close(finish)
		return <-result
	}
}

// hooks returns the calls of the hooks since the last call.
func (r *replica) hooks() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.told
	r.told = nil
	return told
}
