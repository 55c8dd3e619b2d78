package leaderelection_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// foreignPatience is how long one of ours leaves the record of client-go's elector alone: D +
// max(D/3, 5 s).
const foreignPatience = 2 * duration

// startForeign starts a replica with client-go's elector, whose name begins with an f.
func (c *cluster) startForeign(name string, args ...string) *e2e.Process {
	c.t.Helper()
	return c.run("./foreign", c.user(name, verbs...), name, args...)
}

// requireForeignRunnerUp starts one when there is a leader, and returns when it has seen that.
func (c *cluster) requireForeignRunnerUp(name string, args ...string) *e2e.Process {
	c.t.Helper()
	c.term(1)
	p := c.startForeign(name, args...)
	c.requireAudited(name, time.Time{}, "get 200", 1)
	return p
}

func isForeign(replica string) bool { return strings.HasPrefix(replica, "f") }

// lastWrite is when the API server received a replica's last write before a time, by its audit log:
// others can have seen it before it was answered, but not before that.
func (c *cluster) lastWrite(replica string, before time.Time) time.Time {
	c.t.Helper()
	events, err := c.cp.Audit()
	require.NoError(c.t, err)
	var last time.Time
	for _, e := range events {
		if e.User == c.namespace+"-"+replica && e.Write() && e.Code < 300 && e.Received.Before(before) &&
			e.Received.After(last) {
			last = e.Received
		}
	}
	return last
}

// requireNoOverlapByOurs is the referee's verdict on a mixed team. Of two terms that overlap, the
// later must not have begun before the record of the earlier had stood for D; if it waited, the
// earlier must have ended. Only client-go's elector may break that. It returns how many overlaps
// there were.
func (c *cluster) requireNoOverlapByOurs() (foreign int) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, a := range c.terms {
		for _, b := range c.terms[i+1:] {
			if !a.first.Before(b.end) || !b.first.Before(a.end) {
				continue
			}
			culprit := a // goes on
			if b.first.Sub(c.lastWrite(a.replica, b.first)) < duration {
				culprit = b // began too early
				if isForeign(a.replica) && isForeign(b.replica) {
					culprit = a // has released too early, or b has not waited
				}
			}
			assert.True(c.t, isForeign(culprit.replica),
				"two leaders by a fault of %s: %s acted from %s to %s, %s from %s to %s",
				culprit.replica, a.replica, a.first, a.end, b.replica, b.first, b.end)
			foreign++
		}
	}
	c.t.Logf("overlaps in %d terms: %d of client-go's own", len(c.terms), foreign)
	return foreign
}

func TestMixedTeamSurvivesKills(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		foreign := c.startForeign("f1")
		ours := c.requireRunnerUp("a")
		c.requireForeignRenewal("f1")
		killed := time.Now()
		require.NoError(t, foreign.Kill())
		next := c.term(2)
		assert.Equal(t, "a", next.replica)
		waited := next.first.Sub(c.lastWrite("f1", next.first))
		t.Logf("ours began %v after the last write of client-go's", waited)
		assert.GreaterOrEqual(t, waited, foreignPatience-100*time.Millisecond)
		assert.Less(t, waited, foreignPatience+c.gauge.Slack(killed))

		c.requireForeignRunnerUp("f2")
		require.NoError(t, ours.Kill())
		last := c.term(3)
		assert.Equal(t, "f2", last.replica)
		waited = last.first.Sub(c.lastWrite("a", last.first))
		t.Logf("client-go's began %v after the last write of ours", waited)
		assert.GreaterOrEqual(t, waited, duration-100*time.Millisecond)
		assert.Zero(t, c.requireNoOverlapByOurs())
	})
}

func TestMixedTeamSurvivesPartitions(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		proxies := map[string]*e2e.Proxy{}
		for _, replica := range []string{"f1", "a"} {
			proxy, err := shared.Proxy()
			require.NoError(t, err)
			defer proxy.Close()
			proxies[replica] = proxy
		}
		foreign := c.run("./foreign", proxies["f1"].Config(c.user("f1", verbs...)), "f1")
		c.term(1)
		ours := c.startAs(proxies["a"].Config(c.user("a", verbs...)), "a")
		c.requireWatching("a")
		c.requireForeignRenewal("f1")
		proxies["f1"].BlackHole()
		c.requireExit(foreign, 1)
		next := c.term(2)
		assert.Equal(t, "a", next.replica)
		t.Logf("ours began %v after the last act of client-go's", next.first.Sub(c.term(1).end))

		c.requireForeignRunnerUp("f2")
		c.requireRenewal()
		proxies["a"].BlackHole()
		c.requireExit(ours, leaderelection.ExitCodeNotLeader)
		last := c.term(3)
		assert.Equal(t, "f2", last.replica)
		silence := last.first.Sub(c.term(2).end)
		t.Logf("client-go's began %v after the last act of ours", silence)
		assert.GreaterOrEqual(t, silence, duration-usable-100*time.Millisecond, "M later")
		c.requireNoOverlapByOurs()
	})
}

func TestMixedTeamIsRolledOverAndBack(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		const drain = 2500 * time.Millisecond // half of D: as long as work may take after client-go's has released
		f1 := c.startForeign("f1", "-drain", drain.String())
		f2 := c.requireForeignRunnerUp("f2", "-drain", drain.String())

		// A client-go candidate is not held up by work that goes on, and begins. Ours waits for a D
		// from the release.
		require.NoError(t, f1.Terminate())
		c.requireExit(f1, 0)
		assert.Equal(t, "f2", c.term(2).replica)
		a := c.start("a", "-drain", drain.String())
		c.requireWatching("a")
		require.NoError(t, f2.Terminate())
		c.requireExit(f2, 0)
		third := c.term(3)
		assert.Equal(t, "a", third.replica)
		t.Logf("ours began %v after client-go's work had ended, and that had been told to",
			third.first.Sub(c.term(2).end))
		assert.GreaterOrEqual(t, third.first.Sub(c.lastWrite("f2", third.first)), duration-100*time.Millisecond,
			"the release")

		c.requireForeignRunnerUp("f3", "-drain", drain.String())
		require.NoError(t, a.Terminate())
		c.requireExit(a, 0)
		fourth := c.term(4)
		assert.Equal(t, "f3", fourth.replica)
		assert.False(t, fourth.first.Before(c.term(3).end), "ours releases after its work")
		assert.Equal(t, 1, c.requireNoOverlapByOurs(), "f2 began while f1 stopped")
	})
}

// requireForeignRenewal returns when a leader of client-go's has renewed.
func (c *cluster) requireForeignRenewal(replica string) {
	c.t.Helper()
	c.requireAudited(replica, time.Time{}, "update 200", 1)
}
