package leaderelection_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	outageElections = 3
	outageReplicas  = 11 // of each election: a leader and ten candidates
	outageObjects   = 50_000
	outageLength    = 20 * time.Second
	outageAftermath = time.Minute
	outageRush      = 10 * time.Second // after the server is ready, in which leaders should get what they need
	// outageRestart is how soon a kubelet starts a container that has ended for the first time.
	outageRestart = time.Second
)

// BenchmarkOutage is what the API server gets to do in the minute after an outage of 20 s, when three
// controllers of eleven replicas each have 50,000 ConfigMaps to cache. First the replicas are cut off
// from the API server, which goes on. Then the API server itself is killed.
func BenchmarkOutage(b *testing.B) {
	c := newCrowd(b, outageObjects)
	peers := []peer{clientGo, clientGoWarm, ours}
	var table strings.Builder
	fmt.Fprint(&table,
		"| away | | restarts | lists of all | of one object | requests | MB | MB in 10 s | ready, s | resumed, s |")
	compare(b, peers, func(b *testing.B, p peer) (figures []figure) {
		f := startFleet(b, c, p)
		defer f.end()
		for _, o := range []outage{
			{"network", f.proxy.Cut, f.proxy.Heal},
			{"server", func() { require.NoError(b, c.cp.APIServer.Kill()) }, func() {
				require.NoError(b, c.cp.APIServer.Restart())
				require.NoError(b, c.cp.Ready(b.Context()))
			}},
		} {
			suffered := f.suffer(o)
			figures = append(figures, suffered...)
			fmt.Fprintf(&table, "\n| %s | %s |", o.name, p.name)
			for _, s := range suffered {
				fmt.Fprintf(&table, " %.4g |", s.value)
			}
		}
		b.Log(table.String()) // so far
		return figures
	})
}

// outage begins and ends.
type outage struct {
	name       string
	begin, end func()
}

// fleet is the replicas of all elections, with one network for all, and a kubelet.
type fleet struct {
	*crowd
	user     string
	config   *rest.Config // of each replica
	proxy    *e2e.Proxy
	stop     context.CancelFunc
	running  sync.WaitGroup
	ready    atomic.Int64
	restarts atomic.Int64

	mu    sync.Mutex
	begun [outageElections][]time.Time // when work of each election began
}

// startFleet returns when all replicas contend and all leaders work.
func startFleet(b *testing.B, c *crowd, p peer) *fleet {
	b.Helper()
	proxy, err := c.cp.Proxy()
	require.NoError(b, err)
	c = c.in(b)
	f := &fleet{crowd: c, user: p.name, config: proxy.Config(c.user(p)), proxy: proxy}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(b.Context())
	begin := time.Now()
	for replica := range outageReplicas { // each leader first, then its candidates
		for election := range outageElections {
			f.start(ctx, p, election, replica)
		}
		f.eventually("replicas are ready", func() bool { return f.ready.Load() == int64((replica+1)*outageElections) })
		if replica == 0 {
			f.eventually("leaders work", func() bool {
				last, _ := f.resumed(begin)
				return last != nil
			})
		}
	}
	f.running.Go(func() { f.edit(ctx) })
	return f
}

func (f *fleet) start(ctx context.Context, p peer, election, replica int) {
	f.b.Helper()
	lease := fmt.Sprint(p.name, "-", election)
	if replica == 0 {
		require.True(f.b, f.create(lease, nil))
	}
	process := f.run(p, f.config, lease, fmt.Sprint(replica), func(what string, m moment) {
		switch what {
		case "ready":
			f.ready.Add(1)
		case "works":
			f.mu.Lock()
			defer f.mu.Unlock()
			f.begun[election] = append(f.begun[election], m.at)
		}
	})
	f.running.Go(func() { f.keep(ctx, process) })
}

// keep starts a process again that has ended, until ctx has ended.
func (f *fleet) keep(ctx context.Context, process *e2e.Process) {
	for {
		select {
		case <-process.Done():
		case <-ctx.Done():
			if err := process.Kill(); err != nil {
				f.b.Error(err)
			}
			return
		}
		select {
		case <-time.After(outageRestart):
		case <-ctx.Done():
			return
		}
		f.restarts.Add(1)
		if err := process.Restart(); err != nil {
			f.b.Error(err)
			return
		}
	}
}

// edit is a user who changes one of the objects once a second.
func (f *fleet) edit(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		// There may be no API server.
		_, _ = f.configMaps.Patch(ctx, "c-0", types.MergePatchType,
			fmt.Appendf(nil, `{"data":{"at":%q}}`, time.Now()), metav1.PatchOptions{})
	}
}

func (f *fleet) end() {
	f.stop()
	f.running.Wait()
	_ = f.proxy.Close()
}

// resumed returns when the last term of each election began, and how many did since a time: nil if
// there is an election without one.
func (f *fleet) resumed(since time.Time) (last []time.Time, terms int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, begun := range f.begun {
		n := 0
		for _, at := range begun {
			if at.After(since) {
				n++
			}
		}
		if n == 0 {
			return nil, 0
		}
		last, terms = append(last, begun[len(begun)-1]), terms+n
	}
	return last, terms
}

// suffer has an outage, and returns what happens until a minute after it.
func (f *fleet) suffer(o outage) []figure {
	f.b.Helper()
	<-time.After(settling)
	restarts := f.restarts.Load()
	f.asked(f.user, time.Time{}, time.Time{})
	down := time.Now()
	o.begin()
	<-time.After(outageLength)
	before := f.proxy.Received()
	up := time.Now()
	o.end()
	ready := time.Since(up).Round(time.Millisecond) // an API server takes a while
	rushed := make(chan int64, 1)
	time.AfterFunc(outageRush, func() { rushed <- f.proxy.Received() - before })
	counted := time.Now().Add(outageAftermath)
	<-time.After(outageAftermath)
	received := f.proxy.Received() - before
	restarts = f.restarts.Load() - restarts
	asked := f.asked(f.user, down, counted)
	var last []time.Time
	var terms int
	f.eventually("all leaders work again", func() bool {
		last, terms = f.resumed(up)
		return last != nil
	})
	var resumed []time.Duration
	for _, at := range last {
		resumed = append(resumed, at.Sub(up).Round(time.Millisecond))
	}
	slices.Sort(resumed)
	f.b.Logf("%s: ready after %v, work goes on after %v, in the last of %d terms, %+v", o.name, ready,
		resumed, terms, asked)
	return []figure{
		{o.name + "-restarts", "processes", float64(restarts)},
		{o.name + "-lists", "of-everything", float64(asked.everything)},
		{o.name + "-probes", "lists-of-one", float64(asked.ones)},
		{o.name + "-requests", "in-all", float64(asked.all)},
		{o.name + "-received", "MB", float64(received) / 1e6},
		{o.name + "-rushed", "MB", float64(<-rushed) / 1e6},
		{o.name + "-ready", "s", ready.Seconds()},
		{o.name + "-resumed", "s", quantile(resumed, 1).Seconds()},
	}
}
