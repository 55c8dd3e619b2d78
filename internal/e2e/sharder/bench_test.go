package sharder_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"

	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Each benchmark is one experiment, whatever b.N is, and reports what it timed itself.
// BENCHMARKS.md says what the figures mean.

// concurrency is the sharder's default.
const concurrency = 16

// assigner gives the objects of a cluster to shard a until ctx has ended, and tells when each of them
// was given.
type assigner struct {
	name string
	run  func(ctx context.Context, c *cluster, assigned func(name string))
}

var (
	// bare is the least that anybody can do: a label.
	bare = assigner{"bare", func(ctx context.Context, c *cluster, assigned func(string)) {
		loop(ctx, c, assigned, func(*metav1.PartialObjectMetadata) []byte {
			return fmt.Appendf(nil, `{"metadata":{"labels":{%q:"a"}}}`, shardLabel)
		})
	}}
	// bareRecord writes as much as the sharder, and as carefully.
	bareRecord = assigner{"bare-record", func(ctx context.Context, c *cluster, assigned func(string)) {
		loop(ctx, c, assigned, func(o *metav1.PartialObjectMetadata) []byte {
			record := fmt.Sprintf(`{"uid":%q,"shard":"a","leaseUID":"00000000-0000-0000-0000-000000000000","epoch":1,`+
				`"state":"owned"}`, o.UID)
			return fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q,"labels":{%q:"a",%q:null,%q:%q},`+
				`"annotations":{%q:%q}}}`,
				o.UID, o.ResourceVersion, shardLabel, drainLabel, api.SealLabel(ringName), sealOf(record),
				recordAnnotation(configMaps), record)
		})
	}}
	ours = assigner{"bellwether", runOurs}
)

// loop lists and watches the objects without the label, and patches them.
func loop(ctx context.Context, c *cluster, assigned func(string), patch func(*metav1.PartialObjectMetadata) []byte) {
	client, err := metadata.NewForConfig(shared.Admin())
	require.NoError(c.t, err)
	objects := client.Resource(configMaps.Resource).Namespace(c.namespace)
	work := make(chan *metav1.PartialObjectMetadata)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(work)
	for range concurrency {
		workers.Go(func() {
			for o := range work {
				if _, err := objects.Patch(ctx, o.Name, types.MergePatchType, patch(o),
					metav1.PatchOptions{}); err == nil {
					assigned(o.Name)
				} else if ctx.Err() == nil {
					c.t.Error(err)
				}
			}
		})
	}
	options := metav1.ListOptions{LabelSelector: "!" + shardLabel, Limit: 500}
	var version string
	for {
		page, err := objects.List(ctx, options)
		require.NoError(c.t, err)
		if version == "" {
			version = page.ResourceVersion
		}
		for i := range page.Items {
			work <- &page.Items[i]
		}
		if options.Continue = page.Continue; page.Continue == "" {
			break
		}
	}
	w, err := objects.Watch(ctx, metav1.ListOptions{LabelSelector: options.LabelSelector, ResourceVersion: version})
	require.NoError(c.t, err)
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.ResultChan():
			if !ok {
				return // too slow a reader: the experiment will not end
			}
			if o, ok := e.Object.(*metav1.PartialObjectMetadata); ok && e.Type == watch.Added {
				work <- o
			}
		}
	}
}

// runOurs runs a sharder, with its defaults and clients without limits.
func runOurs(ctx context.Context, c *cluster, assigned func(string)) {
	runSharder(ctx, c, configMaps, sharder.Hooks{OnPatch: func(p sharder.Patch) {
		if p.Err == nil {
			assigned(p.Object.Name)
		}
	}})
}

func runSharder(ctx context.Context, c *cluster, k kind, hooks sharder.Hooks) {
	kube, err := kubernetes.NewForConfig(shared.Admin())
	require.NoError(c.t, err)
	objects, err := metadata.NewForConfig(shared.Admin())
	require.NoError(c.t, err)
	discoverer, err := discovery.NewDiscoveryClientForConfig(shared.Admin())
	require.NoError(c.t, err)
	s, err := sharder.New(kube, objects,
		restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer)), sharder.Config{
			Ring: ringName, Namespace: c.namespace,
			Resources: []api.Resource{{GVR: k.Resource, Namespaces: []string{c.namespace}}},
			Hooks:     hooks,
		})
	require.NoError(c.t, err)
	require.NoError(c.t, s.Run(ctx))
}

// holdLease is a shard, which does nothing with what it is given. Calling release ends it.
func holdLease(b *testing.B, c *cluster, name string) (release func()) {
	b.Helper()
	return runLease(b, c, name, func(ctx context.Context, _ *shardlease.Lease) { <-ctx.Done() })
}

// runLease runs work while it holds the Lease of a shard, until release is called.
func runLease(b *testing.B, c *cluster, name string, work func(context.Context, *shardlease.Lease)) (release func()) {
	b.Helper()
	client, err := kubernetes.NewForConfig(shardlease.LeaseConfig(shared.Admin()))
	require.NoError(b, err)
	held := make(chan struct{})
	lease, err := shardlease.New(client, shardlease.Config{
		Namespace: c.namespace, Ring: ringName, Identity: name,
		Hooks:  shardlease.Hooks{OnHeld: func(shardlease.Epoch) { close(held) }},
		OnLost: func(err error) { b.Error(err) },
	})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() {
		_ = lease.Run(ctx, func(ctx context.Context) error { // a loss has failed the benchmark
			work(ctx, lease)
			return nil
		})
	})
	release = func() {
		cancel()
		running.Wait()
	}
	b.Cleanup(release)
	<-held
	return release
}

// BenchmarkSharderAssignment is how fast 10,000 objects are assigned that were there before the
// sharder, from its start until the last patch, beside loops that do nothing but list and patch.
func BenchmarkSharderAssignment(b *testing.B) {
	const objects = 10_000
	rates := map[string][]float64{}
	measure := func(a assigner) {
		c := newCrowd(b)
		c.create(objects)
		holdLease(b, c, "a")
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan time.Time, 1)
		var mu sync.Mutex
		seen := map[string]bool{}
		began := time.Now()
		var running sync.WaitGroup
		running.Go(func() {
			a.run(ctx, c, func(name string) {
				mu.Lock()
				defer mu.Unlock()
				if seen[name] = true; len(seen) == objects {
					select {
					case done <- time.Now():
					default:
					}
				}
			})
		})
		took := (<-done).Sub(began)
		cancel()
		running.Wait()
		rates[a.name] = append(rates[a.name], objects/took.Seconds())
	}
	for _, a := range []assigner{bare, bareRecord, ours, ours, bareRecord, bare} {
		// what changes meanwhile hits all alike
		measure(a)
	}
	mean := func(a assigner) float64 { return (rates[a.name][0] + rates[a.name][1]) / 2 }
	for _, a := range []assigner{bare, bareRecord, ours} {
		b.ReportMetric(mean(a), a.name+"-objects/s")
	}
	b.ReportMetric(mean(ours)/mean(bare), "x-bare")
	b.ReportMetric(mean(ours)/mean(bareRecord), "x-bare-record")
	b.ReportMetric(0, "ns/op") // leaves it out
}

// BenchmarkSharderLatency is the time from when the creation of an object is sent until the answer
// to the patch that assigns it.
func BenchmarkSharderLatency(b *testing.B) {
	const objects = 1_000
	for _, a := range []assigner{bare, ours} {
		b.Run(a.name, func(b *testing.B) {
			c := newCrowd(b)
			holdLease(b, c, "a")
			ctx, cancel := context.WithCancel(b.Context())
			assigned := make(chan string, objects+1)
			var running sync.WaitGroup
			running.Go(func() { a.run(ctx, c, func(name string) { assigned <- name }) })
			var took []time.Duration
			for n := range objects + 1 {
				sent := time.Now()
				o, err := c.client.CoreV1().ConfigMaps(c.namespace).
					Create(b.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "o-"}},
						metav1.CreateOptions{})
				require.NoError(b, err)
				require.Equal(b, o.Name, <-assigned)
				if n > 0 { // the first waits for the start
					took = append(took, time.Since(sent))
				}
			}
			cancel()
			running.Wait()
			slices.Sort(took)
			b.ReportMetric(1e3*quantile(took, 0.5).Seconds(), "p50-ms")
			b.ReportMetric(1e3*quantile(took, 0.99).Seconds(), "p99-ms")
			b.ReportMetric(0, "ns/op") // leaves it out
		})
	}
}

// quantile returns the smallest value that is not exceeded by this fraction of all.
func quantile(sorted []time.Duration, fraction float64) time.Duration {
	return sorted[max(1, int(math.Ceil(fraction*float64(len(sorted)))))-1]
}
