package sharder

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/transport"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// cluster is an API server with shards and sharders, in a synctest bubble. Its shards only hold their
// Leases and let go of drained objects.
type cluster struct {
	t      *testing.T
	server *apisim.Server
	kube   kubernetes.Interface
	meta   metadata.Interface
	keys   protocol.Keys

	connection *apisim.Client // of the latest sharder

	// astray reports whether a proxy answers a request of a sharder in place of the API server. If
	// it is nil, the proxy answers none.
	astray atomic.Pointer[func(*http.Request) bool]

	running []func()

	weight       *int          // of shards that are started
	returnWithin time.Duration // of shards
	former       bool          // shards are of the previous version, and free a drained object

	mu      sync.Mutex
	history []string // the calls of the hooks
	patches map[string]int
	scans   []Scan
}

const (
	testRing      = "r"
	testNamespace = "ns"
	historyKey    = "memberships" // of the ConfigMap with the ring's history
)

func inCluster(t *testing.T, f func(t *testing.T, k *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &cluster{
			t: t,
			server: apisim.NewServer(apisim.Resource{
				GroupVersionResource: ringtest.Widgets, Kind: "Widget",
				Namespaced: true,
			}), keys: protocol.KeysOf(testRing).Of(
				ringtest.ConfigMaps.GroupResource()), patches: map[string]int{},
		}
		k.kube, k.meta = k.clients(k.server.Client("user"))
		defer k.end()
		f(t, k)
	})
}

// end stops all shards and sharders.
func (k *cluster) end() {
	for _, stop := range k.running {
		stop()
	}
}

func (k *cluster) clients(connection *apisim.Client, wrap ...transport.WrapperFunc) (kubernetes.Interface,
	metadata.Interface,
) {
	config := connection.Config()
	for _, f := range wrap {
		config.Wrap(f)
	}
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(k.t, err)
	meta, err := metadata.NewForConfig(config)
	require.NoError(k.t, err)
	return kube, meta
}

// config returns the config of the sharders.
func (k *cluster) config() Config {
	note := func(format string, args ...any) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.history = append(k.history, fmt.Sprintf(format, args...))
	}
	return Config{
		Ring: testRing, Namespace: testNamespace, Resources: []api.Resource{{GVR: ringtest.ConfigMaps}},
		Logger: k.log(),
		Hooks: Hooks{
			OnMembership: func(members []string) { note("members %v", members) },
			OnSettled:    func(members []string) { note("settled %v", members) },
			OnTaken:      func(shard string) { note("taken %s", shard) },
			OnCollected:  func(shard string) { note("collected %s", shard) },
			OnStorm:      func(shards []string) { note("storm %v", shards) },
			OnOverdue:    func(o Overdue) { note("overdue %s at %s", o.Object.Name, o.Shard) },
			OnPatch: func(p Patch) {
				k.mu.Lock()
				defer k.mu.Unlock()
				if p.Err == nil {
					k.patches[p.Verb]++
				}
			},
			OnScan: func(s Scan) {
				k.mu.Lock()
				defer k.mu.Unlock()
				k.scans = append(k.scans, s)
			},
		},
	}
}

func (k *cluster) log() *zap.Logger {
	return zaptest.NewLogger(k.t, zaptest.Level(zap.InfoLevel))
}

// told returns the calls of the hooks since its last call.
func (k *cluster) told() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	told := k.history
	k.history = nil
	return told
}

// patched returns the number of successful patches of the sharders by verb, since its last call.
func (k *cluster) patched() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	patched := k.patches
	k.patches = map[string]int{}
	return patched
}

// sharder runs a sharder until stop is called.
func (k *cluster) sharder(c Config) (stop func()) { return k.sharderWith(c, apisim.Faults{}) }

// sharderWith is sharder with faults that its connection has from the first request on.
func (k *cluster) sharderWith(c Config, faults apisim.Faults) (stop func()) {
	k.connection = k.server.Client("sharder")
	k.connection.Inject(faults)
	kube, meta := k.clients(k.connection, k.proxy)
	s, err := New(kube, meta, ringtest.TestMapper(), c)
	require.NoError(k.t, err)
	return k.begin(func(ctx context.Context) { assert.NoError(k.t, s.Run(ctx)) })
}

func (k *cluster) begin(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(k.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	k.running = append(k.running, stop)
	return stop
}

// testShard is a shard of a cluster.
type testShard struct {
	connection *apisim.Client
	sharder    *Sharder // of a replica
	release    func()
	stubborn   atomic.Bool // it does not let go of anything
	acks       atomic.Int32
}

// shard starts a shard.
func (k *cluster) shard(name string) *testShard { return k.shardWith(name, func(*shardlease.Lease) {}) }

// idleShard runs one in whose process nothing works on objects until begin is called.
func (k *cluster) idleShard(name string) (s *testShard, begin func()) {
	var working atomic.Bool
	var changed func()
	s = k.shardWith(name, func(l *shardlease.Lease) {
		changed = l.IdleWhile(func() bool { return !working.Load() })
	})
	return s, func() { working.Store(true); changed() }
}

// shardWith runs a shard whose Lease is prepared before.
func (k *cluster) shardWith(name string, prepare func(*shardlease.Lease)) *testShard {
	s := &testShard{connection: k.server.Client(name)}
	kube, meta := k.clients(s.connection)
	lease, err := shardlease.New(kube,
		shardlease.Config{
			Namespace: testNamespace, Ring: testRing, Identity: name, ReturnWithin: k.returnWithin,
			Weight: k.weight, OnLost: func(error) {},
		})
	require.NoError(k.t, err)
	prepare(lease)
	s.release = k.begin(func(ctx context.Context) {
		_ = lease.Run(ctx, func(ctx context.Context) error {
			term, err := lease.Term()
			if err != nil {
				return err
			}
			k.acknowledge(ctx, s, name, meta, term.Epoch())
			return nil
		})
	})
	return s
}

// acknowledge lets go of the drained objects of a shard until ctx ends.
func (k *cluster) acknowledge(ctx context.Context, s *testShard, name string, meta metadata.Interface,
	epoch shardlease.Epoch,
) {
	drained := ringtest.SelectorOf(k.t, k.keys.Drain+","+k.keys.Shard+"="+name)
	src := source{
		client: meta.Resource(ringtest.ConfigMaps), selector: drained, page: newPageSize(500),
		log: zap.NewNop(), resource: protocol.Resource{Resource: api.Resource{GVR: ringtest.ConfigMaps}},
	}
	src.run(ctx, sink{found: func(o *metav1.PartialObjectMetadata) bool {
		r, ok := k.keys.RecordOf(o)
		for s.stubborn.Load() && clock.Sleep(ctx, time.Second) {
		}
		if ok && r.State == protocol.StateOwned &&
			r.Owner() == (protocol.OwnerEpoch{Shard: name, LeaseUID: epoch.LeaseUID, Epoch: epoch.Number}) {
			label, next := k.keys.ReleaseRecord(o, r, k.former)
			_, err := meta.Resource(ringtest.ConfigMaps).Namespace(o.Namespace).Patch(ctx, o.Name, types.MergePatchType,
				k.keys.MergePatch(o.UID, o.ResourceVersion, label, false, next), metav1.PatchOptions{})
			if err == nil {
				s.acks.Add(1)
			}
		}
		return ctx.Err() == nil
	}})
}

// kill cuts a shard off from the API server forever.
func (s *testShard) kill() {
	s.connection.Sever()
}

// create creates n objects, named prefix-000 and so on.
func (k *cluster) create(n int, prefix string) {
	for i := range n {
		_, err := k.kube.CoreV1().ConfigMaps("default").Create(k.t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%03d", prefix, i)}},
			metav1.CreateOptions{})
		require.NoError(k.t, err)
	}
}

func (k *cluster) objects() []metav1.PartialObjectMetadata {
	list, err := k.meta.Resource(ringtest.ConfigMaps).Namespace("default").List(k.t.Context(), metav1.ListOptions{})
	require.NoError(k.t, err)
	return list.Items
}

// strips removes all marks of the ring from an object.
func (k *cluster) strips(o metav1.Object) {
	_, err := k.meta.Resource(ringtest.ConfigMaps).Namespace(o.GetNamespace()).Patch(k.t.Context(), o.GetName(),
		types.MergePatchType, k.keys.StripPatch(o), metav1.PatchOptions{})
	require.NoError(k.t, err)
}

// owners returns the number of objects of each shard. An object counts for a shard if it has the
// label of the shard, no drain label, and an owner record of the shard's present epoch. All other
// objects count as "-".
func (k *cluster) owners() map[string]int {
	count := map[string]int{}
	for _, o := range k.objects() {
		r, ok := k.keys.RecordOf(&o)
		var l *coordinationv1.Lease
		if ok {
			var err error
			if l, err = k.kube.CoordinationV1().Leases(testNamespace).Get(k.t.Context(), r.Shard,
				metav1.GetOptions{}); apierrors.IsNotFound(err) {
				l, err = nil, nil
			}
			require.NoError(k.t, err)
		}
		owner := "-"
		if ok && r.State == protocol.StateOwned && k.keys.ShardOf(&o) == r.Shard && !k.keys.Draining(&o) && l != nil {
			if e, err := shardlease.EpochOf(l); err == nil &&
				(protocol.OwnerEpoch{Shard: r.Shard, LeaseUID: e.LeaseUID, Epoch: e.Number}) == r.Owner() {
				owner = r.Shard
			}
		}
		count[owner]++
	}
	return count
}

// requirePlaced fails unless there are n objects, each is owned by one of the given shards, and
// each shard has at least one.
func (k *cluster) requirePlaced(n int, shards ...string) {
	k.t.Helper()
	owners := k.owners()
	require.ElementsMatch(k.t, shards, slices.Collect(maps.Keys(owners)), "%v", owners)
	total := 0
	for _, count := range owners {
		total += count
	}
	require.Equal(k.t, n, total)
}
