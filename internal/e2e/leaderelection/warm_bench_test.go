package leaderelection_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// oursLate has caches that get every event cacheLag late.
var oursLate = peer{name: "bellwether-late"}

const cacheLag = 100 * time.Millisecond

// BenchmarkWarmHandover is the time from when the work of a leader that must end has returned, until
// its successor's has had its first look at a cache of 50,000 ConfigMaps that shows all that the one
// before has written. That one writes as fast as it can. Beside it stands how long one of these writes
// takes until it has come through a watch.
func BenchmarkWarmHandover(b *testing.B) {
	c := newCrowd(b, 50_000)
	compare(b, []peer{clientGo, ours, oursLate}, func(b *testing.B, p peer) []figure {
		c := c.in(b)
		rounds, pause := 100, func() time.Duration { return 200*time.Millisecond + rand.N(600*time.Millisecond) }
		if p.name == clientGo.name {
			rounds, pause = 10, aWhile
		}
		require.True(b, c.create(p.name, nil))
		stopwatch := c.watchWrites(p.name)
		proxy, err := c.cp.Proxy()
		require.NoError(b, err)
		defer proxy.Close()
		config := c.user(p)
		leader := c.alternate(p, config, proxy, "a")
		leader.when(leader.works)
		next := c.alternate(p, config, proxy, "b")
		if p.name == oursLate.name {
			proxy.Delay(cacheLag)
		}
		var took []time.Duration
		begin := time.Now()
		c.asked(p.name, time.Time{}, time.Time{}) // leaves out what is before
		for range rounds {
			<-time.After(pause())
			leader.turn()
			ended := leader.when(leader.ended)
			works := next.when(next.works)
			require.GreaterOrEqual(b, works.write, ended.write, "stale")
			took = append(took, works.at.Sub(ended.at))
			leader.turn()
			leader, next = next, leader
		}
		for _, r := range []*alternate{leader, next} {
			require.NoError(b, r.process.Kill())
		}
		slices.Sort(took)
		lags := stopwatch()
		asked := c.asked(p.name, begin, time.Now())
		return []figure{
			{"p50", "ms", 1e3 * quantile(took, 0.5).Seconds()},
			{"p99", "ms", 1e3 * quantile(took, 0.99).Seconds()},
			{"max", "ms", 1e3 * quantile(took, 1).Seconds()},
			{"probed", "handovers", float64(asked.ones)}, // the last term has not left its versions
			{"watch-p50", "ms", 1e3 * quantile(lags, 0.5).Seconds()},
			{"watch-p99", "ms", 1e3 * quantile(lags, 0.99).Seconds()},
		}
	})
}

// alternate is one of two replicas that lead in turn.
type alternate struct {
	b            *testing.B
	process      *e2e.Process
	ready        chan moment
	works, ended chan moment // of its terms
}

// alternate returns when the replica contends. The events of its cache come through the proxy.
func (c *crowd) alternate(p peer, config *rest.Config, events *e2e.Proxy, identity string) *alternate {
	c.b.Helper()
	const terms = 1000
	r := &alternate{
		b: c.b, ready: make(chan moment, 1), works: make(chan moment, terms), ended: make(chan moment, terms),
	}
	channels := map[string]chan moment{"ready": r.ready, "works": r.works, "ended": r.ended}
	kubeconfig, err := c.cp.Kubeconfig(events.Config(config))
	require.NoError(c.b, err)
	args := []string{"-writes", "-cache-kubeconfig", kubeconfig}
	if p.name == oursLate.name {
		args = append(args, "-elector", ours.name)
	}
	r.process = c.run(p, config, p.name, identity, func(what string, m moment) { channels[what] <- m }, args...)
	r.when(r.ready)
	return r
}

// when waits for something that the replica prints.
func (r *alternate) when(event chan moment) moment {
	r.b.Helper()
	select {
	case m := <-event:
		return m
	case <-r.process.Done():
		r.b.Fatalf("a replica has ended: %s", r.process.Log())
	case <-time.After(patience):
		r.b.Fatalf("a replica does nothing: %s", r.process.Log())
	}
	return moment{}
}

// turn ends the replica's term, or has it contend again.
func (r *alternate) turn() {
	r.b.Helper()
	require.NoError(r.b, r.process.Signal(syscall.SIGUSR1))
}

// watchWrites watches a ConfigMap. Calling the result ends that, and returns how long each write took
// from when it was sent until it was seen, in ascending order.
func (c *crowd) watchWrites(name string) func() []time.Duration {
	c.b.Helper()
	ctx, stop := context.WithCancel(c.b.Context())
	w, err := c.configMaps.Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: name}))
	require.NoError(c.b, err)
	var lags []time.Duration
	var watching sync.WaitGroup
	watching.Go(func() {
		defer w.Stop()
		for event := range w.ResultChan() {
			o, ok := event.Object.(*corev1.ConfigMap)
			if !ok {
				if ctx.Err() == nil {
					c.b.Errorf("the watch ended: %v", event.Object)
				}
				return
			}
			if at, err := strconv.ParseInt(o.Data["at"], 10, 64); err == nil {
				lags = append(lags, time.Since(time.Unix(0, at)))
			}
		}
	})
	return func() []time.Duration {
		stop()
		watching.Wait()
		slices.Sort(lags)
		require.NotEmpty(c.b, lags)
		return lags
	}
}
