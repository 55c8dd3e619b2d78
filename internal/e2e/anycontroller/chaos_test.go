package anycontroller_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/kuberay"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// Whatever goes wrong with processes, connections and the API server, programs write only to objects that are their
// replica's, in the end all objects are reconciled, and nothing was created twice. Things go wrong for as long as
// BELLWETHER_SOAK says.
func TestForeignChaos(t *testing.T) {
	const objects = 30
	t.Run("sample-controller", func(t *testing.T) {
		s := newSample(t)
		s.create(0, objects)
		s.chaos(s.reconciled, func(ctx context.Context, random *rand.Rand) error {
			return s.scale(ctx, fmt.Sprintf("foo-%03d", random.IntN(objects)), random.IntN(10))
		})
		s.createdOnce(deployments, objects)
	})
	t.Run("ray-operator", func(t *testing.T) {
		r := newRay(t)
		r.create(objects)
		wanted := slices.Repeat([]int{1}, objects)
		r.chaos(r.reconciled, func(ctx context.Context, random *rand.Rand) error {
			i := random.IntN(objects)
			wanted[i] = min(wanted[i]+1, kuberay.MaxWorkers) // without deletions, each Pod is created once
			return r.clusters.Scale(ctx, kuberay.Name(i), wanted[i])
		})
		r.createdOnce(services, objects)
		r.createdOnce(pods, len(r.list(pods)))
	})
}

// chaos has everything go wrong for a while, and judges.
func (c *cluster) chaos(reconciled func(), change func(context.Context, *rand.Rand) error) {
	c.t.Helper()
	const replicas, lease = 3, 5 * time.Second
	lasts, rest, serverRest := 40*time.Second, 8*time.Second, 20*time.Second
	if soak := os.Getenv(e2e.SoakEnv); soak != "" {
		var err error
		lasts, err = time.ParseDuration(soak)
		require.NoError(c.t, err)
		rest, serverRest = 40*time.Second, time.Minute // a sharder has to lead for a while
	}
	c.lease = lease
	seed := rand.Uint64()
	fmt.Printf("chaos: %s: seed %d, for %v\n", c.t.Name(), seed, lasts)
	var happened e2e.Tally
	var victims []*e2e.Victim
	for i := range replicas {
		victims = append(victims, c.victim(i, &e2e.Victim{
			T: c.t, Random: rand.New(rand.NewPCG(seed, uint64(i))), Lease: lease, Happened: &happened,
		}))
	}
	reconciled()

	ctx, cancel := context.WithTimeout(c.t.Context(), lasts)
	defer cancel()
	randomness := func(i uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 100+i)) }
	faults := e2e.NewDeck(randomness(0), slices.Concat(e2e.Faults(), programFaults))
	var all sync.WaitGroup
	for _, v := range victims {
		all.Go(func() { v.Suffer(ctx, rest, faults) })
	}
	all.Go(func() { c.cp.Suffer(ctx, c.t, randomness(1), serverRest, &happened) })
	all.Go(func() { c.drainSome(ctx, randomness(2), rest, &happened) })
	all.Go(func() {
		for random := randomness(3); e2e.Pause(ctx, e2e.Between(random, 0, time.Second)); {
			if change(ctx, random) == nil {
				happened.Count("change by a user")
			}
		}
	})
	all.Wait()

	kept, stop := context.WithCancel(context.WithoutCancel(c.t.Context()))
	defer all.Wait()
	defer stop()
	for _, v := range victims {
		all.Go(func() { v.Keep(kept) })
	}
	reconciled()
	c.judged()
	fmt.Printf("chaos: %s:\n%s\n", c.t.Name(), &happened)
}

// victim makes a place of processes of a victim, and starts the first.
func (c *cluster) victim(place int, v *e2e.Victim) *e2e.Victim {
	c.t.Helper()
	var err error
	v.Proxy, err = c.cp.Proxy()
	require.NoError(c.t, err)
	generation, run := 0, 0
	v.Start = func(how e2e.Revival) {
		if run++; how == e2e.NewName {
			generation++
		}
		name := fmt.Sprintf("s%d-%d", place, generation)
		user := c.namespace + "-" + name
		c.judge.expect(user, name)
		config := v.Proxy.Config(c.cp.User(user, replicasGroup, "system:masters"))
		r, err := c.run(name+"-"+strconv.Itoa(run), name, config)
		if !assert.NoError(c.t, err) {
			return
		}
		v.Process = r.Process
		c.mu.Lock()
		defer c.mu.Unlock()
		c.replicas[strconv.Itoa(place)] = r
	}
	v.Start(e2e.NewName)
	return v
}

// programFaults are those of the processes below bellwether's.
var programFaults = []e2e.Fault{
	{Name: "kill -9 of the program", Happen: func(_ context.Context, v *e2e.Victim) {
		signalProgram(v, syscall.SIGKILL)
	}},
	{Name: "SIGSTOP of the program, short", Happen: func(ctx context.Context, v *e2e.Victim) {
		signalProgram(v, syscall.SIGSTOP)
		v.Short(ctx)
		signalProgram(v, syscall.SIGCONT)
	}},
	{Name: "SIGSTOP of the program, long", Happen: func(ctx context.Context, v *e2e.Victim) {
		signalProgram(v, syscall.SIGSTOP)
		v.Long(ctx)
		signalProgram(v, syscall.SIGCONT)
	}},
}

// signalProgram signals the program of a victim, if it runs.
func signalProgram(v *e2e.Victim, signal syscall.Signal) {
	for _, bellwether := range process.Children(v.Process.Pid()) {
		for _, program := range process.Children(bellwether) {
			if syscall.Kill(program, signal) == nil {
				v.Happened.Count("programs signalled: " + signal.String())
			}
		}
	}
}

// drainSome drains one shard after another, each for a while, until ctx has ended.
func (c *cluster) drainSome(ctx context.Context, random *rand.Rand, rest time.Duration, happened *e2e.Tally) {
	for e2e.Pause(ctx, e2e.Between(random, rest/5, rest)) {
		c.mu.Lock()
		name := c.replicas[strconv.Itoa(random.IntN(len(c.replicas)))].name
		c.mu.Unlock()
		if c.drain(ctx, name, true) != nil { // it has just ended, or the API server has
			continue
		}
		happened.Count("drained")
		e2e.Pause(ctx, e2e.Between(random, rest/5, rest))
		for {
			if err := c.drain(context.WithoutCancel(ctx), name, false); err == nil || apierrors.IsNotFound(err) {
				break
			}
			time.Sleep(poll)
		}
	}
}
