package leaderelection_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// TestHealedLeaderLeavesItsSuccessorsRecordAlone lets a partitioned leader end when it can reach
// the API server again, and somebody else has the Lease.
func TestHealedLeaderLeavesItsSuccessorsRecordAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		inject func(*e2e.Proxy)
		args   []string
		end    func(*e2e.Process) error // of the leader, when the partition is there
		after  func(*e2e.Process) error // and when it is healed
		code   int
	}{
		// Its work ends long after it has lost the Lease.
		"lost": {inject: (*e2e.Proxy).Cut, args: []string{"-stay"}, after: (*e2e.Process).Terminate, code: 1},
		// Its work ends before the deadline, and it tries to release for four intervals from then,
		// while the successor begins.
		"releasing": {
			inject: (*e2e.Proxy).BlackHole, args: []string{"-drain", (usable - 2*interval).String()},
			end: (*e2e.Process).Terminate,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e2e.Repeat(t, func(t *testing.T) {
				c := newCluster(t, shared)
				proxy, err := shared.Proxy()
				require.NoError(t, err)
				defer proxy.Close()
				leader := c.startAs(proxy.Config(c.user("a", verbs...)), "a", test.args...)
				c.requireRunnerUp("b")
				c.requireRenewal() // so that nearly all of the term is left
				test.inject(proxy)
				if test.end != nil {
					require.NoError(t, test.end(leader))
				}
				assert.Equal(t, "b", c.term(2).replica)
				proxy.Heal()
				healed := time.Now()
				if test.after != nil {
					require.NoError(t, test.after(leader))
				}
				c.requireExit(leader, test.code)
				c.requireAudited("b", time.Now(), "update 200", 2) // all that the other one did is in the log before
				t.Logf("requests of the old leader since the partition was healed: %v", c.audited("a", healed))
				assert.Empty(t, c.writesAfterSuccession("a", "b"))
				assert.Equal(t, "b", *c.lease().Spec.HolderIdentity)
				c.requireOneLeader()
			})
		})
	}
}

// All replicas are cut off for longer than the Lease lasts. Their processes stay, and one of them leads
// as soon as the API server is back.
func TestOutageEndsNoReplicaThatStepsDown(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		replicas, networks := map[string]*e2e.Process{}, []*e2e.Proxy{}
		for _, name := range []string{"a", "b"} {
			proxy, err := shared.Proxy()
			require.NoError(t, err)
			defer proxy.Close()
			networks = append(networks, proxy)
			replicas[name] = c.startAs(proxy.Config(c.user(name, verbs...)), name, "-kernel-deadline",
				"-step-down", interval.String(), "-drain", (interval / 10).String())
			c.term(1)
		}
		c.requireWatching("b")
		c.requireRenewal()
		for _, proxy := range networks {
			proxy.Cut()
		}
		cut := time.Now()
		c.requireLog(replicas["a"], "stepped down, contending again")
		assert.Less(t, time.Since(cut), usable+c.gauge.Slack(cut))
		<-time.After(2*duration - time.Since(cut))
		healed := time.Now()
		for _, proxy := range networks {
			proxy.Heal()
		}
		next := c.term(2)
		t.Logf("%s leads %v after the end of the outage", next.replica, next.first.Sub(healed))
		assert.Less(t, next.first.Sub(healed), interval+c.gauge.Slack(healed))
		for _, p := range replicas {
			require.NoError(t, p.Terminate())
			c.requireExit(p, 0)
		}
		c.requireOneLeader()
	})
}

// writesAfterSuccession returns the writes of the one that the API server accepted after the first
// of the other, to the Lease.
func (c *cluster) writesAfterSuccession(one, other string) []e2e.AuditEvent {
	c.t.Helper()
	events, err := c.cp.Audit()
	require.NoError(c.t, err)
	by := func(e e2e.AuditEvent, name string) bool {
		return e.User == c.namespace+"-"+name && e.Resource == "leases" && e.Write() && e.Code < 300
	}
	first := slices.IndexFunc(events, func(e e2e.AuditEvent) bool { return by(e, other) })
	require.GreaterOrEqual(c.t, first, 0)
	return slices.DeleteFunc(slices.Clone(events[first:]), func(e e2e.AuditEvent) bool { return !by(e, one) })
}
