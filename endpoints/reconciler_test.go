package endpoints_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
		time.Sleep(expiry - 2*interval)
		c.requirePublished("10.0.0.2", "10.0.0.3")
		time.Sleep(5 * interval)
		c.requirePublished("10.0.0.3")
		require.Len(c, third.told().expired, 1)
		assert.Equal(c, "10.0.0.2:443", third.told().expired[0].Endpoints[0].String())
		assert.GreaterOrEqual(c, third.told().expired[0].Unchanged, expiry)
		assert.Contains(c, strings.Join(third.told().events, "\n"), "Warning web EndpointExpired 10.0.0.2:443 removed: not refreshed for 1m")

		newInstance(c, "10.0.0.4", nil).start(c)
		c.requirePublished("10.0.0.3", "10.0.0.4")
	})
}

func TestLastInstanceEmptiesTheServiceWhenItWithdraws(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i := newInstance(c, "10.0.0.1", nil).start(c)
		c.requirePublished("10.0.0.1")
		require.NoError(c, i.stop())
		assert.Empty(c, c.keys())
		assert.Empty(c, c.slices())
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
			newInstance(c, fmt.Sprintf("10.0.0.%d", n+1), func(config *endpoints.Config) { config.PublishEndpoints = true }).start(c)
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

func TestReadErrorChangesNothing(t *testing.T) {
	for _, e := range []struct {
		name, path string
		heartbeats bool // go on
	}{
		{"store", "s/web-endpoints", false},
		{"leases", "/leases", false},
		{"slices", "/endpointslices", true},
		{"service", "/services", true},
		{"settings", "/configmaps/settings", true},
	} {
		t.Run(e.name, func(t *testing.T) {
			inBoth(t, func(c *cluster) {
				a := newInstance(c, "10.0.0.1", func(config *endpoints.Config) { config.Settings = "settings" })
				b := newInstance(c, "10.0.0.2", nil)
				c.createConfigMap("settings", map[string]string{"expire-duration": "1m"})
				a.once(c)
				b.once(c)
				for kind, faults := range map[string]apisim.Faults{
					"refused": {Refuse: reads(e.path)}, "throttled": {Throttle: reads(e.path)}, "silent": {LoseRequest: reads(e.path)},
				} {
					a.client.Inject(faults)
					rounds := 10 // more than it takes to expire
					if !e.heartbeats {
						rounds = 2
					}
					for range rounds {
						time.Sleep(interval / 2)
						written := c.written()
						err := a.ReconcileOnce(c.Context())
						if e.heartbeats {
							assert.Error(c, err, kind)
						} else if err != nil {
							assert.Empty(c, written(), kind)
						}
						b.once(c)
						c.requirePublished("10.0.0.1", "10.0.0.2")
					}
					a.client.Inject(apisim.Faults{})
					a.once(c)
				}
			})
		})
	}
}

// reads matches those of paths that end so.
func reads(path string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, path) || strings.Contains(r.URL.Path, path+"/")
	}
}

// TestOutageExpiresNobody is about an API server that nobody could reach for longer than ExpireAfter: who is back first must not take the
// others for dead, whether reads failed or only writes.
func TestOutageExpiresNobody(t *testing.T) {
	for name, lost := range map[string]func(*http.Request) bool{
		"all":    apisim.Always,
		"writes": func(r *http.Request) bool { return r.Method != http.MethodGet },
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(c *cluster) {
				var all []*instance
				for n := range 3 {
					all = append(all, newInstance(c, fmt.Sprintf("10.0.0.%d", n+1), nil).start(c))
				}
				time.Sleep(time.Minute)
				for _, i := range all {
					i.client.Inject(apisim.Faults{Refuse: lost})
				}
				time.Sleep(5 * expiry)
				for _, i := range all {
					i.client.Inject(apisim.Faults{})
					for range 40 {
						time.Sleep(interval / 20)
						c.requirePublished("10.0.0.1", "10.0.0.2", "10.0.0.3")
					}
				}
				for _, i := range all {
					assert.Empty(c, i.told().expired)
				}
			})
		})
	}
}

// TestInstanceThatBecomesReadyExpiresNobodyYet is about one that has only read while nobody could write.
func TestInstanceThatBecomesReadyExpiresNobodyYet(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		a.once(c)
		b.setReady(errUnwell)
		for range 10 {
			require.ErrorIs(c, b.ReconcileOnce(c.Context()), endpoints.ErrNotReady)
			time.Sleep(interval)
		}
		b.setReady(nil)
		b.once(c)
		a.once(c)
		assert.Empty(c, b.told().expired)
		c.requirePublished("10.0.0.1", "10.0.0.2")
	})
}

func TestStoppedInstanceComesBack(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil).start(c)
		a.once(c)
		time.Sleep(expiry + 3*interval) // a does not run
		c.requirePublished("10.0.0.2")
		a.once(c)
		c.requirePublished("10.0.0.1", "10.0.0.2")
		assert.Len(c, b.told().expired, 1)
		assert.Empty(c, a.told().expired, "it does not take for dead whom it has not seen while it was away")
	})
}

// TestWakingInstanceExpiresNobody is about one that was stopped for longer than ExpireAfter and sees, first thing, entries as it
// knows them: the others were stopped as well.
func TestWakingInstanceExpiresNobody(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		for range 3 {
			a.once(c)
			b.once(c)
			time.Sleep(interval)
		}
		time.Sleep(10 * expiry)
		a.once(c)
		c.requirePublished("10.0.0.1", "10.0.0.2")
		b.once(c)
		assert.Empty(c, a.told().expired)
		assert.Empty(c, b.told().expired)
	})
}

func TestClocksThatAreWrongChangeNothing(t *testing.T) {
	inBoth(t, func(c *cluster) {
		var all []*instance
		for n, offset := range []time.Duration{0, time.Hour, -time.Hour, 20 * 365 * 24 * time.Hour} {
			all = append(all, newInstance(c, fmt.Sprintf("10.0.0.%d", n+1), func(config *endpoints.Config) {
				config.Clock = offsetClock{endpoints.SystemClock(), offset}
			}).start(c))
		}
		time.Sleep(10 * expiry)
		c.requirePublished("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
		for _, i := range all {
			assert.Empty(c, i.told().expired)
		}
		_ = all[3].die()
		time.Sleep(expiry + 3*interval)
		c.requirePublished("10.0.0.1", "10.0.0.2", "10.0.0.3")
	})
}

// TestRemovalNeverTakesARefreshedEntry lets an instance refresh its entry between the read and the removal of another one.
func TestRemovalNeverTakesARefreshedEntry(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		b.once(c)
		for range 6 {
			a.once(c)
			time.Sleep(interval)
		}
		// Of the round's requests the fifth is the removal, which arrives after 9 times this, the answer to the fourth, the heartbeat, after 8.
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

func TestLostStoreTakesNobodyAway(t *testing.T) {
	inBoth(t, func(c *cluster) {
		var all []*instance
		for n := range 3 {
			all = append(all, newInstance(c, fmt.Sprintf("10.0.0.%d", n+1), nil))
			all[n].once(c)
		}
		dead := newInstance(c, "10.0.0.9", nil)
		dead.once(c)
		c.loseStore()
		newcomer := newInstance(c, "10.0.0.4", nil)
		newcomer.once(c)
		c.requirePublished("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.9")
		all = append(all, newcomer)
		for range 7 {
			for _, i := range all {
				i.once(c)
				published := c.published()
				for n := range 4 {
					assert.Contains(c, published, fmt.Sprintf("10.0.0.%d:443/https", n+1))
				}
			}
			time.Sleep(interval)
		}
		all[0].once(c)
		c.requirePublished("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
	})
}

func TestEmptyStoreEmptiesNothing(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, unready := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		a.once(c)
		unready.setReady(errUnwell)
		require.ErrorIs(c, unready.ReconcileOnce(c.Context()), endpoints.ErrNotReady)
		c.loseStore()
		for range 20 {
			require.ErrorIs(c, unready.ReconcileOnce(c.Context()), endpoints.ErrNotReady)
			time.Sleep(interval)
		}
		c.requirePublished("10.0.0.1")
	})
}

func TestInstanceIsPublishedOnlyWhileReady(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil).start(c), newInstance(c, "10.0.0.2", nil)
		b.setReady(errUnwell)
		b.start(c)
		time.Sleep(expiry)
		c.requirePublished("10.0.0.1")
		b.setReady(nil)
		time.Sleep(2 * interval)
		c.requirePublished("10.0.0.1", "10.0.0.2")
		b.setReady(errUnwell)
		time.Sleep(2 * interval)
		c.requirePublished("10.0.0.1")
		assert.Len(c, c.keys(), 1)
		assert.Equal(c, 2, b.logs.FilterMessage("withdrawing this instance").Len(), "once each time")

		a.setReady(errUnwell)
		time.Sleep(2 * interval)
		c.requirePublished()
	})
}

func TestInstanceRemovesItsStaleEntryAtStart(t *testing.T) {
	inBoth(t, func(c *cluster) {
		_ = newInstance(c, "10.0.0.1", nil).start(c).die()
		newInstance(c, "10.0.0.2", nil).start(c)
		c.requirePublished("10.0.0.1", "10.0.0.2")
		again := newInstance(c, "10.0.0.1", nil)
		again.setReady(errUnwell)
		again.start(c)
		c.requirePublished("10.0.0.2")
		assert.Len(c, c.keys(), 1)
	})
}

func TestWithdrawalAfterTheOwnEntryHasExpired(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		a.once(c)
		b.once(c)
		for _, key := range c.keys() { // somebody removes it, and ends before it has published that
			if strings.Contains(key, "10-0-0-1") {
				c.removeKey(key)
			}
		}
		c.requirePublished("10.0.0.1", "10.0.0.2")
		require.NoError(c, a.Withdraw(c.Context()))
		c.requirePublished("10.0.0.2")
	})
}

func (c *cluster) removeKey(key string) {
	c.Helper()
	if c.store == stores["Leases"] {
		require.NoError(c, c.client.CoordinationV1().Leases("ns").Delete(c.Context(), key, metav1.DeleteOptions{}))
		return
	}
	c.patchData("web-endpoints", fmt.Sprintf("{%q:null}", key))
}

func TestWithdrawalLeavesTheOthersWhenTheStoreIsLost(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		a.once(c)
		b.once(c)
		c.loseStore()
		require.NoError(c, a.Withdraw(c.Context()))
		c.requirePublished("10.0.0.2")
	})
}

func TestWithdrawalIsBounded(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i := newInstance(c, "10.0.0.1", func(config *endpoints.Config) { config.WithdrawTimeout = 7 * time.Second }).start(c)
		i.client.Inject(apisim.Faults{LoseResponse: apisim.Always, LoseRequest: apisim.Always})
		begin := time.Now()
		err := i.stop()
		require.ErrorContains(c, err, "endpoints: not withdrawn from Service ns/web")
		assert.Equal(c, 7*time.Second, time.Since(begin))
	})
}

// TestLateHeartbeatDoesNotUndoTheWithdrawal is about a heartbeat whose sender has given up, and which arrives after the entry was removed.
func TestLateHeartbeatDoesNotUndoTheWithdrawal(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i := newInstance(c, "10.0.0.1", nil)
		i.once(c)
		i.client.Inject(apisim.Faults{Latency: 1900 * time.Millisecond})
		ctx, cancel := context.WithTimeout(c.Context(), 12*time.Second) // the heartbeat is sent at 11.4 s
		err := i.ReconcileOnce(ctx)
		cancel()
		require.Error(c, err)
		i.client.Inject(apisim.Faults{})
		require.NoError(c, i.Withdraw(c.Context()))
		time.Sleep(time.Minute)
		assert.Empty(c, c.keys())
		c.requirePublished()
	})
}

func TestForeignSlicesAreLeftAlone(t *testing.T) {
	inBoth(t, func(c *cluster) {
		foreign := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "web-abc", Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "somebody.example.com",
			}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}},
		}
		_, err := c.client.DiscoveryV1().EndpointSlices("ns").Create(c.Context(), foreign, metav1.CreateOptions{})
		require.NoError(c, err)
		before := c.slices()[0]
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		a.once(c)
		b.once(c)
		require.NoError(c, a.Withdraw(c.Context()))
		require.NoError(c, b.Withdraw(c.Context()))
		assert.Equal(c, []discoveryv1.EndpointSlice{before}, c.slices())
	})
}

func TestForeignSliceOfOurNameIsLeftAloneAndReported(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i := newInstance(c, "10.0.0.1", nil)
		i.once(c)
		s := c.slices()[0]
		_, err := c.client.DiscoveryV1().EndpointSlices("ns").Patch(c.Context(), s.Name, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"endpointslice.kubernetes.io/managed-by":"somebody"}}}`), metav1.PatchOptions{})
		require.NoError(c, err)
		before := c.slices()
		err = i.ReconcileOnce(c.Context())
		require.ErrorIs(c, err, endpoints.ErrForeign)
		assert.ErrorContains(c, err, "EndpointSlice ns/"+s.Name)
		assert.Equal(c, before, c.slices())
	})
}

func TestWrongSliceIsRepaired(t *testing.T) {
	for name, patch := range map[string]string{
		"address removed":   `{"endpoints":[{"addresses":["10.0.0.1"]}]}`,
		"address added":     `{"endpoints":[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.2"]},{"addresses":["10.0.0.7"]}]}`,
		"not ready":         `{"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":false}},{"addresses":["10.0.0.2"]}]}`,
		"another port":      `{"ports":[{"name":"https","port":444,"protocol":"TCP"}]}`,
		"no owner":          `{"metadata":{"ownerReferences":null}}`,
		"no endpoints":      `{"endpoints":[]}`,
		"ports of nobody's": `{"ports":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(c *cluster) {
				a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
				a.once(c)
				b.once(c)
				_, err := c.client.DiscoveryV1().EndpointSlices("ns").
					Patch(c.Context(), c.slices()[0].Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				require.NoError(c, err)
				time.Sleep(2 * expiry)
				a.once(c)
				if name == "address added" {
					time.Sleep(expiry)
					a.once(c)
				}
				c.requirePublished("10.0.0.1", "10.0.0.2")
			})
		})
	}
}

func TestOrderOfEndpointsDoesNotMatter(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		a.once(c)
		b.once(c)
		s := c.slices()[0]
		slices.Reverse(s.Endpoints)
		_, err := c.client.DiscoveryV1().EndpointSlices("ns").Update(c.Context(), &s, metav1.UpdateOptions{})
		require.NoError(c, err)
		written := c.written()
		a.once(c)
		assert.Zero(c, written()["endpointslices"])
	})
}

func TestOwnSliceKeepsWhatOthersHaveAddedToIt(t *testing.T) {
	inBoth(t, func(c *cluster) {
		newInstance(c, "10.0.0.1", nil).once(c)
		_, err := c.client.DiscoveryV1().EndpointSlices("ns").Patch(c.Context(), c.slices()[0].Name, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"team":"a"},"annotations":{"b":"c"}}}`), metav1.PatchOptions{})
		require.NoError(c, err)
		newInstance(c, "10.0.0.2", nil).once(c)
		c.requirePublished("10.0.0.1", "10.0.0.2")
		assert.Equal(c, "a", c.slices()[0].Labels["team"])
		assert.Equal(c, "c", c.slices()[0].Annotations["b"])
	})
}

func TestDualStackAndSeveralPorts(t *testing.T) {
	inBoth(t, func(c *cluster) {
		metrics := endpoints.Port{Name: "metrics", Number: 9090}
		both := func(config *endpoints.Config) {
			config.Addresses = append(config.Addresses, netip.MustParseAddr("2001:db8::"+config.Addresses[0].String()[7:]))
			config.Ports = append(config.Ports, metrics)
		}
		a, b := newInstance(c, "10.0.0.1", both), newInstance(c, "10.0.0.2", both)
		other := newInstance(c, "10.0.0.2", func(config *endpoints.Config) { // on the same address
			config.Ports = []endpoints.Port{{Name: "https", Number: 8443}}
		})
		for _, i := range []*instance{a, b, other} {
			i.once(c)
		}
		want := []string{
			"10.0.0.1", "10.0.0.1:9090/metrics", "10.0.0.2", "10.0.0.2:9090/metrics", "10.0.0.2:8443/https",
			"2001:db8::1", "[2001:db8::1]:9090/metrics", "2001:db8::2", "[2001:db8::2]:9090/metrics",
		}
		c.requirePublished(slices.Clone(want)...)
		assert.Len(c, c.slices(), 3, "one for each family and port set")
		written := c.written()
		for range 3 {
			time.Sleep(interval)
			for _, i := range []*instance{a, b, other} {
				i.once(c)
			}
		}
		assert.Zero(c, written()["endpointslices"], "nobody fights")
		require.NoError(c, b.Withdraw(c.Context()))
		c.requirePublished("10.0.0.1", "10.0.0.1:9090/metrics", "10.0.0.2:8443/https", "2001:db8::1", "[2001:db8::1]:9090/metrics")
	})
}

func TestPortsOfAnInstanceChange(t *testing.T) {
	inBoth(t, func(c *cluster) {
		newInstance(c, "10.0.0.2", nil).start(c)
		_ = newInstance(c, "10.0.0.1", nil).start(c).die()
		newInstance(c, "10.0.0.1", func(config *endpoints.Config) {
			config.Ports = []endpoints.Port{{Name: "renamed", Number: 443}}
		}).start(c)
		c.requirePublished("10.0.0.1:443/renamed", "10.0.0.2")
	})
}

func TestServiceWithASelectorIsRefused(t *testing.T) {
	inBoth(t, func(c *cluster) {
		require.NoError(c, c.client.CoreV1().Services("ns").Delete(c.Context(), "web", metav1.DeleteOptions{}))
		c.createService(map[string]string{"app": "web"})
		written := c.written()
		i := newInstance(c, "10.0.0.1", nil).start(c)
		i.ran = true
		err := <-i.result
		require.ErrorIs(c, err, endpoints.ErrSelector)
		assert.ErrorContains(c, err, "Service ns/web")
		assert.Empty(c, written())
	})
}

func TestServiceThatComesLater(t *testing.T) {
	inBoth(t, func(c *cluster) {
		require.NoError(c, c.client.CoreV1().Services("ns").Delete(c.Context(), "web", metav1.DeleteOptions{}))
		i := newInstance(c, "10.0.0.1", nil).start(c)
		time.Sleep(10 * expiry)
		assert.Len(c, c.keys(), 1)
		assert.ErrorIs(c, i.lastRound().Err, endpoints.ErrNoService)
		assert.Equal(c, 1, i.logs.FilterMessage("not all of a round could be done").Len())
		c.createService(nil)
		time.Sleep(2 * interval)
		c.requirePublished("10.0.0.1")
		require.NoError(c, c.client.CoreV1().Services("ns").Delete(c.Context(), "web", metav1.DeleteOptions{}))
		require.NoError(c, i.stop())
		assert.Empty(c, c.keys())
	})
}

func TestRemadeServiceOwnsItsSlices(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i := newInstance(c, "10.0.0.1", nil)
		i.once(c)
		require.NoError(c, c.client.CoreV1().Services("ns").Delete(c.Context(), "web", metav1.DeleteOptions{}))
		s := c.createService(nil)
		i.once(c)
		assert.Equal(c, s.UID, c.slices()[0].OwnerReferences[0].UID)
	})
}

func TestSecondProcessOfOneAddressAndPort(t *testing.T) {
	inBoth(t, func(c *cluster) {
		before, after := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.1", nil)
		before.once(c)
		after.once(c)
		before.once(c)
		require.NoError(c, before.Withdraw(c.Context()))
		c.requirePublished("10.0.0.1")
		require.NoError(c, after.Withdraw(c.Context()))
		c.requirePublished()
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
