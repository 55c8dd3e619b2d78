package endpoints_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// way is how long a request of a slow instance is under way, and again the answer. Of a round, the Service arrives after one way, the slices after
// three, the store after five, the heartbeat after seven, and the first write to the slices after nine.
const way = 100 * time.Millisecond

// slowly has an instance do something while its requests take their time; meanwhile is done when its heartbeat, or the removal of its entry,
// has been answered, and its next write is on its way.
func slowly(c *cluster, i *instance, do func() error, meanwhile func()) {
	c.Helper()
	i.client.Inject(apisim.Faults{Latency: way})
	done := make(chan error, 1)
	go func() { done <- do() }()
	time.Sleep(17 * way / 2)
	meanwhile()
	require.NoError(c, <-done)
	i.client.Inject(apisim.Faults{})
}

// refusals counts the writes of an instance to what is published that were refused.
func (c *cluster) refusals(client string) (n int) {
	c.Helper()
	for _, s := range c.server.Trace() {
		if s.Client == client && strings.Contains(s.Path, "/endpointslices") && s.Code == http.StatusConflict {
			n++
		}
	}
	return n
}

func TestWriteFromAnOlderViewIsDecidedAnew(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b, third := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil), newInstance(c, "10.0.0.3", nil)
		third.once(c)
		written := c.written()
		slowly(c, a, func() error { return a.ReconcileOnce(c.Context()) }, func() { b.once(c) })
		c.requirePublished("10.0.0.1", "10.0.0.2", "10.0.0.3")
		assert.Equal(c, 1, c.refusals("10.0.0.1"))
		writes := written()
		assert.Equal(c, 2, writes["configmaps"]+writes["leases"], "one heartbeat of each all the same")
	})
}

func TestLastOneOutDoesNotTakeAwayWhoComesIn(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		a.once(c)
		slowly(c, a, func() error { return a.Withdraw(c.Context()) }, func() { b.once(c) })
		c.requirePublished("10.0.0.2")
		assert.Equal(c, 1, c.refusals("10.0.0.1"))
	})
}

// TestFirstEntriesOfAnEmptyStoreAreBothThere is about a ConfigMap that exists and has no data, where both would add the place for entries.
func TestFirstEntriesOfAnEmptyStoreAreBothThere(t *testing.T) {
	inBoth(t, func(c *cluster) {
		c.createConfigMap("web-endpoints", nil)
		done := make(chan error, 2)
		for _, address := range []string{"10.0.0.1", "10.0.0.2"} {
			i := newInstance(c, address, nil)
			i.client.Inject(apisim.Faults{Latency: way})
			go func() { done <- i.ReconcileOnce(c.Context()) }()
		}
		require.NoError(c, <-done)
		require.NoError(c, <-done)
		assert.Len(c, c.keys(), 2)
		c.requirePublished("10.0.0.1", "10.0.0.2")
	})
}

// TestHeartbeatUnderWayIsNotGivenUp has the first entry of an instance arrive long after the instance was told to end.
func TestHeartbeatUnderWayIsNotGivenUp(t *testing.T) {
	inBoth(t, func(c *cluster) {
		newInstance(c, "10.0.0.2", nil).once(c)
		i := newInstance(c, "10.0.0.1", nil)
		i.client.Inject(apisim.Faults{Latency: way})
		i.start(c)
		time.Sleep(11 * way / 2)
		i.client.Inject(apisim.Faults{Latency: 3 * time.Second})
		time.Sleep(way)
		i.client.Inject(apisim.Faults{})
		require.NoError(c, i.stop())
		time.Sleep(interval)
		assert.Len(c, c.keys(), 1)
		c.requirePublished("10.0.0.2")
	})
}
