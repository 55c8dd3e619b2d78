package leaderelection_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// TestRenewalsLeaveADeadConnection is why a Lease's client has connections of its own over
// HTTP/1.1: a request that has timed out closes its connection, so that the next one dials. On
// HTTP/2 the next one would wait on the same connection.
func TestRenewalsLeaveADeadConnection(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		proxy, err := shared.Proxy()
		require.NoError(t, err)
		defer proxy.Close()
		leader := c.startAs(proxy.Config(c.user("a", verbs...)), "a")
		c.requireRunnerUp("b")
		c.requireLookout("l", "ResponseStarted")
		c.requireAudited("a", time.Time{}, "update 200", 1) // so there is a connection that the next one would take
		proxy.BlackHoleConnections()                        // also that of the leader's watch
		dead := time.Now()
		c.requireAudited("a", dead, "update 200", 3)
		first := c.requireAudited("a", dead, "get 200", 1)[0]
		t.Logf("the leader was back on a new connection %v after its old ones died", first.Sub(dead))
		assert.Less(t, first.Sub(dead), usable)
		assert.Equal(t, []string{"a"}, c.journal())
		require.NoError(t, leader.Terminate())
		c.requireExit(leader, 0)
		assert.Equal(t, "b", c.term(2).replica)
		c.requireOneLeader()
	})
}
