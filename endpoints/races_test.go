package endpoints_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// way is how long a request of a slow instance is under way, and again the answer. Of a round, the
// Service arrives after one way, the slices after three, the store after five, the heartbeat after
// seven, and the first write to the slices after nine.
const way = 100 * time.Millisecond

// slowly has an instance do something while its requests take their time; meanwhile is done when
// its heartbeat, or the removal of its entry, has been answered, and its next write is on its way.
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

// refusals counts the writes of an instance to its slices that were refused.
func (c *cluster) refusals(client string) int { return c.refusalsOf(client, "endpointslices") }

func (c *cluster) refusalsOf(client, resource string) (n int) {
	c.Helper()
	for _, s := range c.server.Trace() {
		if s.Client == client && strings.Contains(s.Path, "/"+resource) && s.Code == http.StatusConflict {
			n++
		}
	}
	return n
}

func TestWriteFromAnOlderViewIsDecidedAgain(t *testing.T) {
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

// The ConfigMap exists without data, and both instances add the map of entries.
func TestFirstEntriesOfAnEmptyStoreAreBothThere(t *testing.T) {
	inBoth(t, func(c *cluster) {
		c.createConfigMap("web-endpoints", nil)
		lost := 0 // though they would be put back
		c.server.Observe(func(change apisim.Change) {
			before, after := dataOf(change.Before), dataOf(change.After)
			for key := range before {
				if _, exists := after[key]; !exists {
					lost++
				}
			}
		})
		done := make(chan error, 2)
		for _, address := range []string{"10.0.0.1", "10.0.0.2"} {
			i := newInstance(c, address, nil)
			i.client.Inject(apisim.Faults{Latency: way})
			go func() { done <- i.ReconcileOnce(c.Context()) }()
		}
		require.NoError(c, <-done)
		require.NoError(c, <-done)
		assert.Zero(c, lost)
		assert.Len(c, c.keys(), 2)
		c.requirePublished("10.0.0.1", "10.0.0.2")
	})
}

// The first entry of an instance arrives long after its context has ended.
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

// The answer to a removal contains the heartbeat.
func TestHeartbeatIsAsYoungAsItsArrival(t *testing.T) {
	inConfigMap(t, func(c *cluster) {
		a := newInstance(c, "10.0.0.1", nil)
		newInstance(c, "10.0.0.8", nil).once(c)
		newInstance(c, "10.0.0.9", nil).once(c)
		for range 6 {
			a.once(c)
			c.patchData("web-endpoints",
				`{"ip-10-0-0-8-443":`+quote(strings.Replace(deadEntry, "10:07:30Z", time.Now().Format("15:04:05Z"),
					1))+`}`)
			time.Sleep(interval)
		}
		slowly(c, a, func() error { return a.ReconcileOnce(c.Context()) }, func() {
			c.patchData("web-endpoints", `{"ip-10-0-0-8-443":`+quote(deadEntry)+`}`)
		})
		require.Len(c, a.told().expired, 1)
		for _, e := range a.lastRound().Entries {
			assert.Less(c, e.Unchanged, 3*way, e.Key)
		}
	})
}

// The entry is removed while the instance is about to publish.
func TestEntryThatIsRemovedAfterItsHeartbeatIsPutBack(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		newInstance(c, "10.0.0.3", nil).once(c)
		slowly(c, a, func() error { return a.ReconcileOnce(c.Context()) }, func() {
			for _, key := range c.keys() {
				if strings.Contains(key, "10-0-0-1-") {
					c.removeKey(key)
				}
			}
			b.once(c)
		})
		assert.Equal(c, 1, c.refusals("10.0.0.1"))
		c.requirePublished("10.0.0.1", "10.0.0.2", "10.0.0.3")
		assert.Len(c, c.keys(), 3)
	})
}

// They are more than one request may remove. The answer to the first request contains the heartbeat
// of an instance that the second one is to remove. There is no Service: this tests only the store.
func TestThousandsOfTheDeadAreRemoved(t *testing.T) {
	inConfigMap(t, func(c *cluster) {
		const n = 5100
		data := map[string]string{}
		for i := range n {
			data[endpoints.EntryKey(netip.AddrFrom4([4]byte{10, 1, byte(i / 250), byte(i % 250)}), 443)] = deadEntry
		}
		c.createConfigMap("web-endpoints", data)
		require.NoError(c, c.client.CoreV1().Services("ns").Delete(c.Context(), "web", metav1.DeleteOptions{}))
		round := func(i *instance) { assert.ErrorIs(c, i.ReconcileOnce(c.Context()), endpoints.ErrNoService) }
		a, b := newInstance(c, "10.0.0.1",
			func(config *endpoints.Config) { config.Interval = expiry / 3 }), newInstance(c, "10.2.0.2", nil)
		round(b)
		for range 3 {
			round(a)
			time.Sleep(expiry / 3)
		}
		a.client.Inject(apisim.Faults{Latency: way})
		done := make(chan struct{})
		go func() {
			defer close(done)
			round(a)
		}()
		time.Sleep(13 * way / 2) // a's heartbeat is answered, its first removal on its way
		round(b)
		<-done
		assert.Equal(c, []string{"ip-10-0-0-1-443", "ip-10-2-0-2-443"}, c.keys())
		assert.Len(c, a.told().expired, n)
		assert.Equal(c, n, a.lastRound().Removals)
	})
}
