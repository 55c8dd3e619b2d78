package sharder_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// BenchmarkSharderRelease is how fast the objects of a shard that has released its Lease are
// assigned to another one, from the release until the last of them carries its label. Beside it the
// bare loop patches a label of the same objects, as many at a time.
func BenchmarkSharderRelease(b *testing.B) {
	c := newCrowd(b)
	c.create(moving)
	holdLease(b, c, "a")
	release := holdLease(b, c, "b")
	r := &rebalance{b: b, c: c, settled: make(chan struct{}, 10)}
	r.run("a", r.start)
	before := r.bare("b", 1)
	moved, took := r.run("a", release)
	r.report(len(moved), took, before+r.bare("a", 1), 1)
}

// BenchmarkSharderDeath is the same for a shard whose process is killed and released by its
// supervisor.
func BenchmarkSharderDeath(b *testing.B) {
	c := newCrowd(b)
	c.create(moving)
	holdLease(b, c, "a")
	dies := c.start("b", "-supervised", "-min-uptime=-1ns", "-without-sharder")
	c.requireSaid("b", 0, "held")
	r := &rebalance{b: b, c: c, settled: make(chan struct{}, 10)}
	r.run("a", r.start)
	before := r.bare("b", 1)
	moved, took := r.run("a", func() { require.NoError(b, dies.Kill()) })
	r.report(len(moved), took, before+r.bare("a", 1), 1)
	b.ReportMetric(1e3*took.Seconds(), "ms")
}

// BenchmarkSharderJoin is how fast objects move to a shard that joins from one that does nothing
// but let go of them, and how many writes each takes. Beside it the bare loop, three times an
// object.
func BenchmarkSharderJoin(b *testing.B) {
	c := newCrowd(b)
	c.create(moving)
	r := &rebalance{b: b, c: c, settled: make(chan struct{}, 10)}
	runLease(b, c, "a", func(ctx context.Context, lease *shardlease.Lease) { idle(ctx, b, c, lease, &r.writes) })
	r.run("a", r.start)
	before := r.bare("a", 3)
	moved, took := r.run("b", func() { holdLease(b, c, "b") })
	r.report(len(moved), took, before+r.bare("b", 3), 3)
}

// moving is the number of objects; about half of them move.
const moving = 4_000

// rebalance is what happens in a ring of two shards.
type rebalance struct {
	b       *testing.B
	c       *cluster
	settled chan struct{}
	writes  atomic.Int64 // to objects, by sharder and shards
	bares   atomic.Int64 // patches of the bare loop; each changes something
}

// start starts the sharder.
func (r *rebalance) start() {
	ctx, cancel := context.WithCancel(r.b.Context())
	var running sync.WaitGroup
	running.Go(func() {
		runSharder(ctx, r.c, configMaps, sharder.Hooks{
			OnPatch:   func(sharder.Patch) { r.writes.Add(1) },
			OnSettled: func([]string) { r.settled <- struct{}{} },
		})
	})
	r.b.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// run changes the ring, and returns which objects a shard has got, and how long that took.
func (r *rebalance) run(shard string, change func()) (moved []string, took time.Duration) {
	client, err := metadata.NewForConfig(shared.Admin())
	require.NoError(r.b, err)
	objects := client.Resource(configMaps.Resource).Namespace(r.c.namespace)
	options := metav1.ListOptions{LabelSelector: shardLabel + "=" + shard}
	list, err := objects.List(r.b.Context(), options)
	require.NoError(r.b, err)
	options.ResourceVersion = list.ResourceVersion
	w, err := objects.Watch(r.b.Context(), options)
	require.NoError(r.b, err)
	defer w.Stop()
	r.writes.Store(0)
	began := time.Now()
	change()
	for settled := false; ; {
		var quiet <-chan time.Time
		if settled {
			quiet = time.After(2 * time.Second)
		}
		select {
		case e := <-w.ResultChan():
			if o, ok := e.Object.(*metav1.PartialObjectMetadata); ok && !slices.Contains(moved, o.Name) {
				moved, took = append(moved, o.Name), time.Since(began)
			}
		case <-r.settled:
			settled = true
		case <-quiet:
			return moved, took
		}
	}
}

// bare returns how long the bare loop takes for one of the objects that are with a shard;
// it patches a label so many times.
func (r *rebalance) bare(shard string, patches int) time.Duration {
	client, err := metadata.NewForConfig(shared.Admin())
	require.NoError(r.b, err)
	objects := client.Resource(configMaps.Resource).Namespace(r.c.namespace)
	list, err := objects.List(r.b.Context(), metav1.ListOptions{LabelSelector: shardLabel + "=" + shard})
	require.NoError(r.b, err)
	began := time.Now()
	work := make(chan string)
	var workers sync.WaitGroup
	for range concurrency {
		workers.Go(func() {
			for name := range work {
				for range patches {
					_, err := objects.Patch(r.b.Context(), name, types.MergePatchType,
						fmt.Appendf(nil, `{"metadata":{"labels":{"bare":"%d"}}}`, r.bares.Add(1)),
						metav1.PatchOptions{})
					if err != nil {
						r.b.Error(err)
					}
				}
			}
		})
	}
	for _, o := range list.Items {
		work <- o.Name
	}
	close(work)
	workers.Wait()
	return time.Since(began) / time.Duration(len(list.Items))
}

// report compares a move with what the bare loop has taken for an object, before and after it.
func (r *rebalance) report(moved int, took, bare time.Duration, patches int) {
	r.b.ReportMetric(float64(moved)/took.Seconds(), "objects/s")
	r.b.ReportMetric(float64(r.writes.Load())/float64(moved), "writes/object")
	r.b.ReportMetric(bare.Seconds()/2*float64(moved)/took.Seconds(), fmt.Sprintf("x-%d-bare-patches", patches))
	r.b.ReportMetric(0, "ns/op") // leaves it out
}

// idle is a shard whose work is nothing.
func idle(ctx context.Context, b *testing.B, c *cluster, lease *shardlease.Lease, writes *atomic.Int64) {
	config := rest.CopyConfig(shared.Admin())
	config.Wrap(lease.WrapTransport)
	objects, err := metadata.NewForConfig(config)
	require.NoError(b, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(b, err)
	discoverer, err := discovery.NewDiscoveryClientForConfig(shared.Admin())
	require.NoError(b, err)
	worker, err := shard.New(objects, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer)),
		lease, shard.Config{
			Resources: []api.Resource{{GVR: configMaps.Resource, Namespaces: []string{c.namespace}}},
			Hooks:     shard.Hooks{OnDrained: func(api.ObjectRef, time.Duration, error) { writes.Add(1) }},
		})
	require.NoError(b, err)
	informer := worker.NewInformer(shard.ListerWatcher(client.CoreV1().ConfigMaps(c.namespace), client),
		&corev1.ConfigMap{}, 0, cache.Indexers{})
	informer.RunWithContext(ctx)
}
