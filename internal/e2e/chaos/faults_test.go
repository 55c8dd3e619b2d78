package chaos_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// fault is something that happens to a replica.
type fault struct {
	name   string
	happen func(ctx context.Context, r *replica)
}

// Faults are over before a lease can be lost by them, or last until it is, and perhaps until the
// shard counts as dead.
const (
	shortMin, shortMax = 300 * time.Millisecond, 3 * time.Second
	longMin, longMax   = leaseDuration, 3 * leaseDuration
	// endPatience is how long a process may take to end on request: as long as it waits for
	// requests, and for the API server.
	endPatience = 30 * time.Second
)

// renaming starts a replica under a new name, like a Deployment.
var renaming = fault{"SIGTERM, then a new name", func(_ context.Context, r *replica) { r.terminate(newName) }}

// faults of replicas.
func faults() []fault {
	connection := func(name string, inject func(*e2e.Proxy)) []fault {
		return []fault{
			{name + ", short", func(ctx context.Context, r *replica) {
				inject(r.proxy)
				pause(ctx, between(r.random, shortMin, shortMax))
				r.proxy.Heal()
			}},
			{name + ", long", func(ctx context.Context, r *replica) {
				inject(r.proxy)
				pause(ctx, between(r.random, longMin, longMax))
				r.proxy.Heal()
			}},
		}
	}
	all := []fault{
		{"kill -9", func(ctx context.Context, r *replica) {
			assert.NoError(r.c.t, r.process.Kill())
			r.watched.Wait()
			pause(ctx, between(r.random, 0, longMax))
			r.start(revival(r.random.IntN(int(revivals))))
		}},
		{"kill -9, back at once", func(_ context.Context, r *replica) {
			assert.NoError(r.c.t, r.process.Kill())
			r.watched.Wait()
			r.start(samePod)
		}},
		{"SIGSTOP, short", func(ctx context.Context, r *replica) {
			if r.process.Pause() == nil {
				pause(ctx, between(r.random, shortMin, shortMax))
				_ = r.process.Resume()
			}
		}},
		{"SIGSTOP, long", func(ctx context.Context, r *replica) {
			if r.process.Pause() == nil {
				pause(ctx, between(r.random, longMin, longMax))
				_ = r.process.Resume() // the kernel has killed it long ago
			}
		}},
		{"SIGTERM, then the same name", func(_ context.Context, r *replica) { r.terminate(newPod) }},
		{"kill -9, and a new name at once", func(_ context.Context, r *replica) {
			assert.NoError(r.c.t, r.process.Kill())
			r.watched.Wait()
			r.start(newName)
		}},
		renaming,
	}
	all = append(all, connection("connections cut", (*e2e.Proxy).Cut)...)
	all = append(all, connection("black hole", (*e2e.Proxy).BlackHole)...)
	return append(all, connection("connections forgotten", (*e2e.Proxy).BlackHoleConnections)...)
}

// terminate has a process end in good order, and starts another.
func (r *replica) terminate(how revival) {
	if r.process.Terminate() == nil && !r.awaitEnd(endPatience) {
		r.c.count("SIGTERM, then killed because it took too long")
	}
	r.watched.Wait()
	r.start(how)
}

// serverFaults happen to the control plane.
func (c *cluster) serverFaults() []func(context.Context) {
	restart := func(name string, server *e2e.Process, end func(*e2e.Process) error) func(context.Context) {
		return func(ctx context.Context) {
			c.count(name)
			_ = end(server)
			stopping, cancel := context.WithTimeout(ctx, 5*time.Second)
			_, _ = server.Wait(stopping)
			cancel()
			pause(ctx, between(c.random, 0, time.Second))
			assert.NoError(c.t, server.Restart())
		}
	}
	return []func(context.Context){
		restart("API server killed", c.cp.APIServer, (*e2e.Process).Kill),
		restart("API server restarted", c.cp.APIServer, (*e2e.Process).Terminate),
		restart("etcd killed", c.cp.Etcd, (*e2e.Process).Kill),
		restart("etcd restarted", c.cp.Etcd, (*e2e.Process).Terminate),
	}
}

// sufferServers lets one fault after another happen to the control plane, until ctx has ended, and
// has it ready then.
func (c *cluster) sufferServers(ctx context.Context) {
	deck := newDeck(c.random, c.serverFaults())
	for pause(ctx, between(c.random, c.plan.serverRest/3, c.plan.serverRest)) {
		deck.draw()(ctx)
		c.requireReady(ctx)
	}
}

// deck deals everything once, in random order, before it deals anything again. It is safe for
// concurrent use.
type deck[T any] struct {
	mu     sync.Mutex
	random *rand.Rand
	all    []T
	order  []int
}

func newDeck[T any](random *rand.Rand, all []T) *deck[T] { return &deck[T]{random: random, all: all} }

func (d *deck[T]) draw() T {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.order) == 0 {
		d.order = d.random.Perm(len(d.all))
	}
	i := d.order[0]
	d.order = d.order[1:]
	return d.all[i]
}

func between(random *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(random.Int64N(int64(to-from)))
}

// pause returns after a while, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() == nil
}
