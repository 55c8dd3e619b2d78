package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Victim is a place where processes run one after another, like those of a Deployment or a StatefulSet, and
// where things go wrong. It belongs to one goroutine.
type Victim struct {
	T      testing.TB
	Random *rand.Rand
	// Lease is the duration of the processes' Leases.
	Lease time.Duration
	// Proxy is the way of the processes to the API server.
	Proxy *Proxy
	// Process is the latest one.
	Process *Process
	// Start starts a process when the one before has ended, and replaces Process.
	Start func(Revival)
	// Happened counts faults.
	Happened *Tally
}

// Revival is how a process comes after another.
type Revival int

// Ways to come after another process.
const (
	SamePod Revival = iota
	NewPod          // of the same name, as of a StatefulSet
	NewName         // as of a Deployment
	revivals
)

// Fault is something that happens to a victim. It is over when Happen returns.
type Fault struct {
	Name   string
	Happen func(ctx context.Context, v *Victim)
}

// Faults are over before a Lease can be lost by them, or last until it is, and perhaps until the
// shard counts as dead.
const shortMin, shortMax = 300 * time.Millisecond, 3 * time.Second

// Short waits for less than it takes to lose a Lease.
func (v *Victim) Short(ctx context.Context) { Pause(ctx, Between(v.Random, shortMin, shortMax)) }

// Long waits for longer than that.
func (v *Victim) Long(ctx context.Context) { Pause(ctx, Between(v.Random, v.Lease, 3*v.Lease)) }

// EndPatience is how long a process may take to end on request: as long as it waits for requests,
// and for the API server.
const EndPatience = 30 * time.Second

// Renaming starts a process under a new name, like a Deployment.
var Renaming = Fault{"SIGTERM, then a new name", func(_ context.Context, v *Victim) { v.terminate(NewName) }}

// Faults are those that any process may have.
func Faults() []Fault {
	all := []Fault{
		{"kill -9", func(ctx context.Context, v *Victim) {
			assert.NoError(v.T, v.Process.Kill())
			Pause(ctx, Between(v.Random, 0, 3*v.Lease))
			v.Start(v.someRevival())
		}},
		{"kill -9, back at once", func(_ context.Context, v *Victim) {
			assert.NoError(v.T, v.Process.Kill())
			v.Start(SamePod)
		}},
		{"SIGSTOP, short", func(ctx context.Context, v *Victim) { v.stop(ctx, v.Short) }},
		{"SIGSTOP, long", func(ctx context.Context, v *Victim) { v.stop(ctx, v.Long) }},
		{"SIGTERM, then the same name", func(_ context.Context, v *Victim) { v.terminate(NewPod) }},
		{"kill -9, and a new name at once", func(_ context.Context, v *Victim) {
			assert.NoError(v.T, v.Process.Kill())
			v.Start(NewName)
		}},
		Renaming,
	}
	for _, connection := range []struct {
		name   string
		inject func(*Proxy)
	}{
		{"connections cut", (*Proxy).Cut},
		{"black hole", (*Proxy).BlackHole},
		{"connections forgotten", (*Proxy).BlackHoleConnections},
	} {
		fault := func(last func(*Victim, context.Context)) func(context.Context, *Victim) {
			return func(ctx context.Context, v *Victim) {
				connection.inject(v.Proxy)
				last(v, ctx)
				v.Proxy.Heal()
			}
		}
		all = append(all, Fault{connection.name + ", short", fault((*Victim).Short)},
			Fault{connection.name + ", long", fault((*Victim).Long)})
	}
	return all
}

func (v *Victim) someRevival() Revival { return Revival(v.Random.IntN(int(revivals))) }

// stop stops the process for a while. After a long one, the kernel has killed it.
func (v *Victim) stop(ctx context.Context, last func(context.Context)) {
	if v.Process.Pause() == nil {
		last(ctx)
		_ = v.Process.Resume()
	}
}

// terminate has a process end in good order, and starts another.
func (v *Victim) terminate(how Revival) {
	if v.Process.Terminate() == nil && !v.AwaitEnd(EndPatience) {
		v.Happened.Count("SIGTERM, then killed because it took too long")
	}
	v.Start(how)
}

// AwaitEnd waits for the end of the process, and kills it if that takes too long. It reports
// whether the process has ended by itself.
func (v *Victim) AwaitEnd(patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.T.Context()), patience)
	defer cancel()
	_, err := v.Process.Wait(ctx)
	if err != nil {
		assert.NoError(v.T, v.Process.Kill())
	}
	return err == nil
}

// Suffer lets one fault after another happen, with at most rest between them, until ctx has ended.
func (v *Victim) Suffer(ctx context.Context, rest time.Duration, faults *Deck[Fault]) {
	defer func() { // ends all that was done
		v.Proxy.Heal()
		_ = v.Process.Resume()
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(Between(v.Random, rest/5, rest)):
			f := faults.Draw()
			v.Happened.Count(f.Name)
			f.Happen(ctx, v)
		case <-v.Process.Done(): // by something else that happened, to the API server
			if Pause(ctx, Between(v.Random, 0, 3*time.Second)) {
				v.Start(v.someRevival())
			}
		}
	}
}

// Keep has a process running until ctx has ended.
func (v *Victim) Keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.Process.Done():
			v.Start(SamePod)
		}
	}
}

// Suffer lets one fault after another happen to the control plane, with at most rest between them, until ctx
// has ended, and has it ready then.
func (c *ControlPlane) Suffer(ctx context.Context, t testing.TB, random *rand.Rand, rest time.Duration,
	happened *Tally,
) {
	type fault struct {
		name   string
		server *Process
		end    func(*Process) error
	}
	faults := NewDeck(random, []fault{
		{"API server killed", c.APIServer, (*Process).Kill},
		{"API server restarted", c.APIServer, (*Process).Terminate},
		{"etcd killed", c.Etcd, (*Process).Kill},
		{"etcd restarted", c.Etcd, (*Process).Terminate},
	})
	for Pause(ctx, Between(random, rest/3, rest)) {
		f := faults.Draw()
		happened.Count(f.name)
		_ = f.end(f.server)
		stopping, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, _ = f.server.Wait(stopping)
		cancel()
		Pause(ctx, Between(random, 0, time.Second))
		assert.NoError(t, f.server.Restart())
		c.requireReady(ctx, t)
	}
}

func (c *ControlPlane) requireReady(ctx context.Context, t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	assert.NoError(t, c.Ready(ctx))
}

// Tally counts events. It is safe for concurrent use.
type Tally struct {
	mu    sync.Mutex
	times map[string]int
}

// Count counts an event.
func (t *Tally) Count(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.times == nil {
		t.times = map[string]int{}
	}
	t.times[what]++
}

// String has a line for each kind of event.
func (t *Tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(t.times)) {
		lines = append(lines, fmt.Sprintf("  %5d %s", t.times[what], what))
	}
	return strings.Join(lines, "\n")
}

// Deck deals everything once, in random order, before it deals anything again. It is safe for
// concurrent use.
type Deck[T any] struct {
	mu     sync.Mutex
	random *rand.Rand
	all    []T
	order  []int
}

// NewDeck returns a deck of these things.
func NewDeck[T any](random *rand.Rand, all []T) *Deck[T] { return &Deck[T]{random: random, all: all} }

// Draw deals the next one.
func (d *Deck[T]) Draw() T {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.order) == 0 {
		d.order = d.random.Perm(len(d.all))
	}
	i := d.order[0]
	d.order = d.order[1:]
	return d.all[i]
}

// Between returns a random duration.
func Between(random *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(random.Int64N(int64(to-from)))
}

// Pause returns after a while, and reports whether ctx has not ended.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() == nil
}
