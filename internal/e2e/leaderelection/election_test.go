package leaderelection_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		c.start("a")
		assert.Equal(t, "a", c.term(1).replica)
		c.start("b")
		c.start("c")
		c.requireWatching("b")
		c.requireWatching("c")
		c.requireLookout("l", "ResponseStarted") // the leader's

		settled := time.Now()
		renewals := c.requireAudited("a", settled, "update 200", 11)
		assert.InDelta(t, 10*interval, renewals[10].Sub(renewals[0]), float64(interval+c.gauge.Slack(settled)),
			"one renewal per interval")
		assert.Len(t, c.audited("a", settled), 1, "and nothing else")
		assert.Empty(t, c.audited("b", settled), "an idle candidate sends no requests")
		assert.Empty(t, c.audited("c", settled))
		assert.Len(t, c.journal(), 1, "nor does it work")
	})
}

func TestKilledLeaderIsSucceededAfterExpiry(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		leader := c.start("a")
		c.requireRunnerUp("b")
		require.NoError(t, leader.Kill())
		killed := time.Now()
		next := c.term(2)
		assert.Equal(t, "b", next.replica)
		wait := next.first.Sub(killed)
		t.Logf("the next leader began %v after kill -9", wait)
		assert.GreaterOrEqual(t, next.first.Sub(c.lastWrite("a", next.first)), duration-100*time.Millisecond)
		assert.LessOrEqual(t, wait, duration+c.gauge.Slack(killed))
		c.requireOneLeader()
	})
}

func TestEndedLeaderIsSucceededWhenItsWorkHasReturned(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		leader := c.start("a", "-drain", "5s")
		c.requireRunnerUp("b")
		told := time.Now()
		require.NoError(t, leader.Terminate())
		c.requireExit(leader, 0)
		next := c.term(2)
		last := c.term(1)
		assert.GreaterOrEqual(t, last.end.Sub(told), 5*time.Second-100*time.Millisecond, "work was left its time")
		t.Logf("the next leader began %v after the last act of the one before", next.first.Sub(last.end))
		assert.Less(t, next.first.Sub(last.end), c.gauge.Slack(told))
		c.requireOneLeader()
	})
}

func TestStoppedLeaderExitsWhenItWakes(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		leader := c.start("a")
		c.requireRunnerUp("b")
		require.NoError(t, leader.Pause())
		stopped := time.Now()
		next := c.term(2)
		assert.Equal(t, "b", next.replica)
		require.NoError(t, leader.Resume())
		woken := time.Now()
		exit := c.requireExit(leader, leaderelection.ExitCodeNotLeader)
		t.Logf("exited %v after it woke", exit.At.Sub(woken))
		assert.Less(t, exit.At.Sub(woken), duration+c.gauge.Slack(woken), "a busy machine is slow to run it")
		// By its deadline, unless the answer to a renewal that it had sent before came first.
		assert.Regexp(t, "not renewed in time|the record is not ours any more", c.log(leader))

		// It can have been stopped between the question whether it leads and the act: that one act
		// is not prevented.
		acts := 0
		for _, at := range c.acted("a") {
			if at.After(stopped.Add(duration)) {
				acts++
			}
		}
		assert.LessOrEqual(t, acts, 1)
	})
}

func TestPartitionedLeaderEndsBeforeItsSuccessorBegins(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		for fault, inject := range map[string]func(*e2e.Proxy){
			"cut":        (*e2e.Proxy).Cut,
			"black hole": (*e2e.Proxy).BlackHole,
		} {
			c := newCluster(t, shared)
			proxy, err := shared.Proxy()
			require.NoError(t, err)
			defer proxy.Close()
			leader := c.startAs(proxy.Config(c.user("a", verbs...)), "a")
			c.requireRunnerUp("b")
			inject(proxy)
			c.requireExit(leader, leaderelection.ExitCodeNotLeader)
			next := c.term(2)
			t.Logf("%s: the next leader began %v after the last act of the one before", fault,
				next.first.Sub(c.term(1).end))
			assert.GreaterOrEqual(t, next.first.Sub(c.term(1).end), duration-usable-100*time.Millisecond, "M later")
			c.requireOneLeader()
		}
	})
}

func TestDeletedLeaseEndsTheTerm(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		leader := c.start("a")
		c.requireRunnerUp("b")
		sent := time.Now()
		require.NoError(t,
			c.client().CoordinationV1().Leases(c.namespace).Delete(t.Context(), "l", metav1.DeleteOptions{}))
		deleted := time.Now()
		exit := c.requireExit(leader, leaderelection.ExitCodeNotLeader)
		assert.Less(t, exit.At.Sub(deleted), interval+c.gauge.Slack(sent), "at its next renewal")
		assert.Contains(t, c.log(leader), "the Lease was deleted")
		next := c.term(2)
		assert.GreaterOrEqual(t, next.first.Sub(sent), duration-100*time.Millisecond, "deletion is not release")
		assert.Less(t, next.first.Sub(deleted), duration+c.gauge.Slack(sent))
		c.requireOneLeader()
	})
}

func TestOutageOfTheAPIServer(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		cp := e2e.Start(t, e2e.Options{})
		restart := func() (took time.Duration) {
			begin := time.Now()
			require.NoError(t, cp.APIServer.Restart())
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.NoError(t, cp.Ready(ctx))
			return time.Since(begin)
		}
		normal := restart()

		steady := newCluster(t, cp)
		steady.duration = max(15*time.Second, 5*normal).Round(time.Second) // so a term outlasts four restarts
		leader := steady.start("a")
		candidate := steady.requireRunnerUp("b")
		down := time.Now()
		t.Logf("the API server was down for %v, at first for %v", restart(), normal)
		steady.requireRenewal()
		assert.Len(t, steady.journal(), 1, "shorter than the lease: nothing happens")
		steady.requireWatchingSince("b", down)
		for _, p := range []*e2e.Process{candidate, leader} {
			require.NoError(t, p.Terminate())
			steady.requireExit(p, 0)
		}

		c := newCluster(t, cp)
		leader = c.start("a")
		candidate = c.requireRunnerUp("b")
		require.NoError(t, cp.APIServer.Kill())
		down = time.Now()
		exit := c.requireExit(leader, leaderelection.ExitCodeNotLeader)
		assert.Less(t, exit.At.Sub(down), usable+c.gauge.Slack(down), "longer: D - M after the last renewal")
		restart()
		assert.Equal(t, "b", c.term(2).replica)
		c.requireOneLeader()
		require.NoError(t, candidate.Terminate())
		c.requireExit(candidate, 0)
	})
}

func TestWithoutWatch(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		leader := c.start("a")
		c.term(1)
		poller := c.startAs(c.user("b", "create", "get", "update"), "b")
		c.requireAudited("b", time.Time{}, "get 200", 3)
		ending := time.Now()
		require.NoError(t, leader.Terminate())
		c.requireExit(leader, 0)
		next := c.term(2)
		assert.Less(t, next.first.Sub(c.term(1).end), interval+c.gauge.Slack(ending))
		assert.Equal(t, 1, strings.Count(c.log(poller), "polling instead of watching"), "said once")
		assert.Contains(t, c.log(poller), `grant the verb \"watch\" on resource leases`)
		c.requireOneLeader()
	})
}

func TestWithoutUpdate(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		leader := c.start("a")
		c.term(1)
		require.NoError(t, leader.Terminate())
		c.requireExit(leader, 0) // there is a Lease now, and it is free
		replica := c.startAs(c.user("b", "create", "get", "watch"), "b")
		c.requireExit(replica, 1)
		assert.Contains(t, c.log(replica),
			"not allowed to update Lease "+c.namespace+`/l: grant the verb "update" on resource leases`)
		assert.Len(t, c.journal(), 1)
	})
}
