package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// seedEnv names the environment variable that repeats the decisions of a run, though not its
// timing.
const seedEnv = "BELLWETHER_CHAOS_SEED"

func seed(t *testing.T) uint64 {
	t.Helper()
	s := rand.Uint64()
	if value := os.Getenv(seedEnv); value != "" {
		var err error
		s, err = strconv.ParseUint(value, 10, 64)
		require.NoError(t, err)
	}
	fmt.Printf("chaos: %s: %s=%d\n", t.Name(), seedEnv, s)
	return s
}

// TestChaos has everything go wrong at once that may, for a while; and then everything has to be in
// order. It is not parallel: how soon that is depends on how busy the machine is.
func TestChaos(t *testing.T) {
	p := plan{
		replicas: 4, objects: 2000, lasts: 35 * time.Second, rest: 8 * time.Second, serverRest: 20 * time.Second,
		rate: 40, faults: e2e.Faults(), slowness: 1,
	}
	if soak := os.Getenv(e2e.SoakEnv); soak != "" {
		var err error
		p.lasts, err = time.ParseDuration(soak)
		require.NoError(t, err)
		// a sharder has to lead for a while before it takes the Leases of dead shards
		p.rest, p.serverRest = 40*time.Second, time.Minute
	}
	began := time.Now()
	c := newCluster(t, p, seed(t))
	stopReading := c.read()
	say := func(format string, args ...any) {
		fmt.Printf("chaos: %v: %s\n", time.Since(began).Round(100*time.Millisecond), fmt.Sprintf(format, args...))
	}
	for _, r := range c.replicas {
		r.start(e2e.NewName)
	}
	c.users.populate(t.Context(), p.objects)
	say("%d objects are there", p.objects)
	c.assertOrder(t.Context(), time.Minute)
	say("they are in order; things go wrong for %v", p.lasts)

	go func() {
		for e2e.Pause(t.Context(), time.Minute) {
			say("\n%s", c.report())
		}
	}()
	c.torment(p.lasts)
	stopKeeping := c.keep()
	say("order again after %v", c.assertOrder(t.Context(), settling).Round(time.Millisecond))
	stopKeeping()
	c.end()
	stopReading()
	breaches, err := c.judge.conclude()
	say("\n%s", c.report())
	require.NoError(t, err)
	for _, breach := range breaches {
		assert.Fail(t, "violation", "%s  logs:\n%s", breach.text, c.saidOf(breach.object))
	}
	c.requireJudged()
}

// end ends all replicas in good order.
func (c *cluster) end() {
	for _, r := range c.replicas {
		_ = r.Process.Terminate()
	}
	for _, r := range c.replicas {
		assert.True(c.t, r.AwaitEnd(e2e.EndPatience), "a replica does not end")
		r.watched.Wait()
	}
}

// requireJudged fails if the referees have seen too little to mean anything. The audit log lacks
// the lines that an API server had not written when it was killed.
func (c *cluster) requireJudged() {
	c.t.Helper()
	j := c.judge
	require.Greater(c.t, j.exclusion.begun, len(c.users.names), "pieces of work")
	require.Greater(c.t, j.ownership.signed, len(c.users.names), "writes")
	require.Greater(c.t, j.ownership.audited*100, j.ownership.signed*95, "writes in the audit log, in percent of all")
	require.Positive(c.t, j.moves)
	require.Empty(c.t, j.ownership.waiting, "audited, and never stored")
}
