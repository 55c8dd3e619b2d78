package leaderelection_test

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// Each benchmark is one experiment on many elections, whatever b.N is, and reports what it timed
// itself. Each does the same with client-go's elector and with ours, one after the other on one
// control plane, both with their defaults and with a client as their users make it. BENCHMARKS.md
// says what the figures mean.

// BenchmarkHandover is the time from when the work of a leader that must end has returned
// until its successor's starts. Leaders end at a random moment, because a successor that polls
// finds out at its next poll.
func BenchmarkHandover(b *testing.B) {
	const elections, rounds = 25, 6
	compare(b, []peer{clientGo, floor, ours}, func(b *testing.B, p peer) []figure {
		took := concurrently(b, elections, func(lease types.NamespacedName) func() []time.Duration {
			var clients [2]kubernetes.Interface
			for i := range clients {
				clients[i] = newLink(b).client(b, p)
			}
			return func() (took []time.Duration) {
				leader := contend(b, p, clients[0], lease)
				leader.when(leader.began)
				for round := range rounds {
					next := contend(b, p, clients[(round+1)%2], lease)
					<-time.After(aWhile())
					leader.stop()
					ended := leader.when(leader.ended)
					took = append(took, next.when(next.began).Sub(ended))
					end(leader)
					leader = next
				}
				end(leader)
				return took
			}
		})
		return []figure{
			{"p50", "ms", 1e3 * quantile(took, 0.5).Seconds()},
			{"p99", "ms", 1e3 * quantile(took, 0.99).Seconds()},
			{"max", "ms", 1e3 * quantile(took, 1).Seconds()},
		}
	})
}

// BenchmarkCrash is the time from the sudden end of all connections of the leader, as by kill -9,
// until its successor's work starts.
func BenchmarkCrash(b *testing.B) {
	const elections = 40
	compare(b, []peer{clientGo, ours}, func(b *testing.B, p peer) []figure {
		took := concurrently(b, elections, func(lease types.NamespacedName) func() []time.Duration {
			lifeline := newLink(b)
			client, other := lifeline.client(b, p), newLink(b).client(b, p)
			return func() []time.Duration {
				leader := contend(b, p, client, lease)
				leader.when(leader.began)
				next := contend(b, p, other, lease)
				<-time.After(aWhile())
				lifeline.cut()
				crashed := time.Now()
				took := next.when(next.began).Sub(crashed)
				end(leader, next)
				return []time.Duration{took}
			}
		})
		p50, worst := quantile(took, 0.5), quantile(took, 1)
		return []figure{
			{"p50", "s", p50.Seconds()},
			{"p50", "leases", float64(p50) / float64(fullDuration)},
			{"max", "s", worst.Seconds()},
			{"max", "leases", float64(worst) / float64(fullDuration)},
		}
	})
}

// BenchmarkTraffic is what one leader and one candidate exchange with the API server while nothing
// happens.
func BenchmarkTraffic(b *testing.B) {
	const elections, window = 10, 30 * time.Second
	compare(b, []peer{clientGo, ours}, func(b *testing.B, p peer) []figure {
		var contenders []*contender
		var leaders, candidates []*link
		for _, lease := range newLeases(b, elections) {
			leader, candidate := newLink(b), newLink(b)
			leaders, candidates = append(leaders, leader), append(candidates, candidate)
			c := contend(b, p, leader.client(b, p), lease)
			c.when(c.began)
			contenders = append(contenders, c, contend(b, p, candidate.client(b, p), lease))
		}
		<-time.After(settling)
		for _, l := range slices.Concat(leaders, candidates) {
			l.requests.Store(0)
			l.bytes.Store(0)
		}
		<-time.After(window)
		each := func(links []*link, of func(*link) int64) float64 {
			var sum int64
			for _, l := range links {
				sum += of(l)
			}
			return float64(sum) / elections / window.Seconds()
		}
		requests := func(l *link) int64 { return l.requests.Load() }
		bytes := func(l *link) int64 { return l.bytes.Load() }
		figures := []figure{
			{"leader", "req/s", each(leaders, requests)},
			{"leader-wire", "B/s", each(leaders, bytes)},
			{"candidate", "req/s", each(candidates, requests)},
			{"candidate-wire", "B/s", each(candidates, bytes)},
		}
		end(contenders...)
		return figures
	})
}

// BenchmarkFootprint is what one elector among many that share a client takes of its process,
// including the connections that it uses. Those that were opened because all began at once are closed
// after 90 s.
func BenchmarkFootprint(b *testing.B) {
	const electors = 100
	measure := func(b *testing.B, p peer, leases []types.NamespacedName, settled func([]*contender)) []figure {
		client := newLink(b).client(b, p)
		_, err := client.Discovery().ServerVersion() // connects
		require.NoError(b, err)
		var contenders []*contender
		heap, goroutines := takeFootprint()
		for _, lease := range leases {
			contenders = append(contenders, contend(b, p, client, lease))
		}
		settled(contenders)
		<-time.After(95 * time.Second)
		moreHeap, moreGoroutines := takeFootprint()
		end(contenders...)
		return []figure{
			{"heap", "B/elector", (moreHeap - heap) / electors},
			{"goroutines", "per-elector", (moreGoroutines - goroutines) / electors},
		}
	}
	b.Run("leader", func(b *testing.B) {
		compare(b, []peer{clientGo, ours}, func(b *testing.B, p peer) []figure {
			return measure(b, p, newLeases(b, electors), func(leaders []*contender) {
				for _, l := range leaders {
					l.when(l.began)
				}
			})
		})
	})
	b.Run("candidate", func(b *testing.B) {
		compare(b, []peer{clientGo, ours}, func(b *testing.B, p peer) []figure {
			leases := newLeases(b, electors)
			hold(b, leases)
			return measure(b, p, leases, func([]*contender) {})
		})
	})
}

// takeFootprint returns the bytes on the heap and the number of goroutines of this process.
func takeFootprint() (heap, goroutines float64) {
	runtime.GC() // the second empties what the first left in pools
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(runtime.NumGoroutine())
}

// hold gives leases to an absent holder, for longer than anything here takes. As in records of our electors, the API
// server does not track their fields.
func hold(b *testing.B, leases []types.NamespacedName) {
	b.Helper()
	client, err := kubernetes.NewForConfig(shared.Admin())
	require.NoError(b, err)
	now := metav1.NowMicro()
	for _, lease := range leases {
		held, err := client.CoordinationV1().Leases(lease.Namespace).Create(b.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: lease.Name},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("absent"), LeaseDurationSeconds: ptr.To(int32(3600)), AcquireTime: &now,
				RenewTime: &now,
			},
		}, metav1.CreateOptions{})
		require.NoError(b, err)
		held.ManagedFields = []metav1.ManagedFieldsEntry{{}}
		_, err = client.CoordinationV1().Leases(lease.Namespace).Update(b.Context(), held, metav1.UpdateOptions{})
		require.NoError(b, err)
	}
}

// figure is something measured. A benchmark reports it as <name>-<unit>.
type figure struct {
	name, unit string
	value      float64
}

// compare measures all peers and reports the figures of each, and their ratios to those before it
// as <name>-x-<peer>.
func compare(b *testing.B, peers []peer, measure func(*testing.B, peer) []figure) {
	measured := map[string][]figure{} // by peer; without those that -bench did not select
	for i, p := range peers {
		b.Run(p.name, func(b *testing.B) {
			figures := measure(b, p)
			for j, f := range figures {
				b.ReportMetric(f.value, f.name+"-"+f.unit)
				for _, before := range peers[:i] {
					if base := measured[before.name]; base != nil && base[j].value != 0 {
						b.ReportMetric(f.value/base[j].value, f.name+"-x-"+before.name)
					}
				}
			}
			measured[p.name] = figures
			b.ReportMetric(0, "ns/op") // leaves it out
		})
	}
}

// concurrently holds elections, and returns how long everything took that they timed, in ascending
// order. prepare is called by the benchmark's own goroutine.
func concurrently(b *testing.B, n int, prepare func(types.NamespacedName) func() []time.Duration) []time.Duration {
	b.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var running sync.WaitGroup
	for _, lease := range newLeases(b, n) {
		elect := prepare(lease)
		running.Go(func() {
			took := elect()
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	running.Wait()
	slices.Sort(all)
	return all
}

// quantile returns the smallest value that is not exceeded by this fraction of all.
func quantile(sorted []time.Duration, fraction float64) time.Duration {
	return sorted[max(1, int(math.Ceil(fraction*float64(len(sorted)))))-1]
}

// settling is how long electors are left alone before they count as idle.
const settling = 5 * time.Second

// aWhile is a time in which every candidate has found the leader, and that ends at any moment of
// anyone's interval.
func aWhile() time.Duration { return 2*time.Second + rand.N(6*time.Second) }

// newLeases returns the names of leases that do not exist.
func newLeases(b *testing.B, n int) []types.NamespacedName {
	b.Helper()
	namespace, err := shared.Namespace(b.Context(), "bench")
	require.NoError(b, err)
	leases := make([]types.NamespacedName, n)
	for i := range leases {
		leases[i] = types.NamespacedName{Namespace: namespace, Name: "l" + strconv.Itoa(i)}
	}
	return leases
}

// contender is one elector, whose work waits for the end of its context.
type contender struct {
	began, ended chan time.Time // when its work did
	stop         context.CancelFunc
	done, failed chan struct{}
}

// contend starts an elector.
func contend(b *testing.B, p peer, client kubernetes.Interface, lease types.NamespacedName) *contender {
	ctx, stop := context.WithCancel(b.Context())
	c := &contender{
		began: make(chan time.Time, 1), ended: make(chan time.Time, 1),
		stop: stop, done: make(chan struct{}), failed: make(chan struct{}),
	}
	go func() {
		defer close(c.done)
		err := p.run(ctx, client, lease, func(ctx context.Context) {
			c.began <- time.Now()
			<-ctx.Done()
			c.ended <- time.Now()
		})
		if err != nil {
			b.Error(err)
			close(c.failed)
		}
	}()
	return c
}

// when waits for the beginning or the end of the elector's work.
func (c *contender) when(event chan time.Time) time.Time {
	select {
	case at := <-event:
		return at
	case <-c.failed: // and so has the benchmark
		return time.Time{}
	}
}

// end stops electors and returns when they have ended.
func end(contenders ...*contender) {
	for _, c := range contenders {
		c.stop()
	}
	for _, c := range contenders {
		<-c.done
	}
}
