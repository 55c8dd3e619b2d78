package endpoints_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

func TestInstancesAppearAndDisappear(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil).start(c), newInstance(c, "10.0.0.2", nil).start(c)
		third := newInstance(c, "10.0.0.3", nil).start(c)
		time.Sleep(2 * interval)
		c.requirePublished("10.0.0.1", "10.0.0.2", "10.0.0.3")

		require.NoError(c, a.stop())
		c.requirePublished("10.0.0.2", "10.0.0.3")

		_ = b.die()
		time.Sleep(expiry - 3*interval)
		c.requirePublished("10.0.0.2", "10.0.0.3")
		time.Sleep(6 * interval)
		c.requirePublished("10.0.0.3")
		require.Len(c, third.told().expired, 1)
		assert.Equal(c, "10.0.0.2:443", third.told().expired[0].Endpoints[0].String())
		assert.GreaterOrEqual(c, third.told().expired[0].Unchanged, expiry)
		assert.Contains(c, strings.Join(third.told().events, "\n"),
			"Warning web EndpointExpired 10.0.0.2:443 removed: not refreshed for 1m")

		newInstance(c, "10.0.0.4", nil).start(c)
		c.requirePublished("10.0.0.3", "10.0.0.4")
	})
}

func TestLiveInstancesNeverExpire(t *testing.T) {
	inBoth(t, func(c *cluster) {
		var all []*instance
		for n := range 3 {
			all = append(all, newInstance(c, fmt.Sprintf("10.0.0.%d", n+1), nil).start(c))
		}
		for range 20 {
			time.Sleep(time.Minute)
			c.requirePublished("10.0.0.1", "10.0.0.2", "10.0.0.3")
		}
		for _, i := range all {
			assert.Empty(c, i.told().expired)
			for _, r := range i.told().rounds {
				assert.NoError(c, r.Err)
			}
		}
	})
}

func TestOneHeartbeatEachIntervalAndNothingElse(t *testing.T) {
	inBoth(t, func(c *cluster) {
		for n := range 3 {
			newInstance(c, fmt.Sprintf("10.0.0.%d", n+1),
				func(config *endpoints.Config) { config.PublishEndpoints = true }).start(c)
		}
		time.Sleep(interval)
		written := c.written()
		time.Sleep(40 * interval)
		writes := written()
		assert.InDelta(c, 120, writes["configmaps"]+writes["leases"], 8)
		assert.Zero(c, writes["endpointslices"])
		assert.Zero(c, writes["endpoints"])
	})
}

// An instance refreshes its entry between the read and the removal by another one.
func TestRemovalNeverTakesARefreshedEntry(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		b.once(c)
		for range 6 {
			a.once(c)
			time.Sleep(interval)
		}
		// Of the round's requests the fifth is the removal, which arrives after 9 times this, the
		// answer to the fourth, the heartbeat, after 8.
		const way = 300 * time.Millisecond
		a.client.Inject(apisim.Faults{Latency: way})
		done := make(chan error, 1)
		go func() { done <- a.ReconcileOnce(c.Context()) }()
		time.Sleep(17 * way / 2)
		b.once(c)
		require.NoError(c, <-done)
		a.client.Inject(apisim.Faults{})
		var removals []int
		for _, s := range c.server.Trace() {
			if s.Client == "10.0.0.1" && (s.Method == http.MethodDelete || s.Code == http.StatusUnprocessableEntity) {
				removals = append(removals, s.Code)
			}
		}
		require.Len(c, removals, 1, "it has tried, once")
		assert.GreaterOrEqual(c, removals[0], 400)
		assert.Empty(c, a.told().expired)
		c.requirePublished("10.0.0.1", "10.0.0.2")
		assert.Len(c, c.keys(), 2)
	})
}

func TestMethodsExcludeEachOther(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i := newInstance(c, "10.0.0.1", nil).start(c)
		require.ErrorIs(c, i.Run(c.Context()), endpoints.ErrBusy)
		require.ErrorIs(c, i.ReconcileOnce(c.Context()), endpoints.ErrBusy)
		require.ErrorIs(c, i.Withdraw(c.Context()), endpoints.ErrBusy)
		require.NoError(c, i.stop())
		i.once(c)
		c.requirePublished("10.0.0.1")
	})
}

func TestInstancesThatStartTogetherLoseNothing(t *testing.T) {
	inBoth(t, func(c *cluster) {
		for range 50 {
			var both []*instance
			for n := range 2 {
				both = append(both, newInstance(c, fmt.Sprintf("10.0.0.%d", n+1), nil).start(c))
			}
			time.Sleep(time.Second)
			c.requirePublished("10.0.0.1", "10.0.0.2")
			for _, i := range both {
				require.NoError(c, i.stop())
			}
			c.loseStore()
		}
	})
}

func TestWhoChangesWhatIsPublishedTellsOfIt(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a := newInstance(c, "10.0.0.1", nil).start(c)
		_ = newInstance(c, "10.0.0.2", nil).start(c).die()
		time.Sleep(2 * expiry)
		c.requirePublished("10.0.0.1")
		var told []string
		for _, published := range a.told().published {
			told = append(told, fmt.Sprint(published))
		}
		one := "[10.0.0.1:443]"
		assert.Equal(c, []string{one, one}, told, "first, and after the other one, which has published both")
		assert.Equal(c, 2, a.logs.FilterMessage("published").Len())
	})
}

// Two instances remove the same dead one.
func TestOnlyWhoRemovesAnEntryTellsOfIt(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		newInstance(c, "10.0.0.9", nil).once(c)
		for range 6 {
			a.once(c)
			b.once(c)
			time.Sleep(interval)
		}
		slowly(c, a, func() error { return a.ReconcileOnce(c.Context()) }, func() { b.once(c) })
		c.requirePublished("10.0.0.1", "10.0.0.2")
		assert.Len(c, b.told().expired, 1)
		assert.Equal(c, 1, b.lastRound().Removals)
		assert.Empty(c, a.told().expired)
		assert.Zero(c, a.lastRound().Removals)
	})
}

// The Services are in two namespaces, with their stores in a third one.
func TestServicesOfOneNameDoNotMix(t *testing.T) {
	for name, store := range map[string]endpoints.Store{
		"ConfigMap": endpoints.ConfigMapStore{Namespace: "registry"},
		"Leases":    endpoints.LeaseStore{Namespace: "registry"},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, store, func(c *cluster) {
				c.createServiceIn("other", nil)
				a, other := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.1",
					func(config *endpoints.Config) { config.Namespace = "other" })
				third := newInstance(c, "10.0.0.3", func(config *endpoints.Config) { config.Namespace = "other" })
				for range 2 {
					a.once(c)
					other.once(c)
					third.once(c)
				}
				c.requirePublished("10.0.0.1")
				require.NoError(c, other.Withdraw(c.Context()))
				a.once(c)
				c.requirePublished("10.0.0.1")
				list, err := c.client.DiscoveryV1().EndpointSlices("other").List(c.Context(), metav1.ListOptions{})
				require.NoError(c, err)
				require.Len(c, list.Items, 1)
				assert.Equal(c, []string{"10.0.0.3:443/https"}, contents(c, list.Items[0]))
			})
		})
	}
}

func TestFailedRoundIsTriedAgainSoon(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i := newInstance(c, "10.0.0.1", nil)
		// Reads are tried again by the client itself.
		i.client.Inject(apisim.Faults{Refuse: func(r *http.Request) bool { return r.Method != http.MethodGet }})
		i.start(c)
		require.Error(c, i.lastRound().Err)
		i.client.Inject(apisim.Faults{})
		time.Sleep(time.Second)
		synctest.Wait()
		c.requirePublished("10.0.0.1")
	})
}

// Instances that started together must not keep writing together.
func TestIntervalsDiffer(t *testing.T) {
	inBoth(t, func(c *cluster) {
		newInstance(c, "10.0.0.1", nil).start(c)
		time.Sleep(20 * interval)
		var at []time.Duration
		for _, s := range c.server.Trace() {
			if s.Client != "admin" && strings.HasSuffix(s.Path, "/services/web") {
				at = append(at, s.At)
			}
		}
		require.Greater(c, len(at), 15)
		different := map[time.Duration]bool{}
		for n := range at[1:] {
			different[at[n+1]-at[n]] = true
			assert.InDelta(c, interval, at[n+1]-at[n], float64(interval)/20)
		}
		assert.Greater(c, len(different), 10)
	})
}
