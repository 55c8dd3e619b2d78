package endpoints_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

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
					"refused": {Refuse: reads(e.path)}, "throttled": {Throttle: reads(e.path)},
					"silent": {LoseRequest: reads(e.path)},
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
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, path) ||
			strings.Contains(r.URL.Path, path+"/")
	}
}

// No instance can reach the API server for longer than ExpireAfter. The first one back must not
// consider the others dead, whether reads failed or only writes.
func TestOutageExpiresNoInstance(t *testing.T) {
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

// The instance was only able to read while none could write.
func TestInstanceThatBecomesReadyRemovesNoEntryYet(t *testing.T) {
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

// An instance that was stopped for longer than ExpireAfter first sees the entries that it knows:
// the others were stopped as well.
func TestWakingInstanceExpiresNoInstance(t *testing.T) {
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
				config.SetClock(offsetClock{clock.System(), offset})
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

func TestLostStoreRemovesNoEndpoint(t *testing.T) {
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

// It stops a process between its heartbeat and its decision. The others may have been stopped as
// well.
func TestStopWithinARoundExpiresNoInstance(t *testing.T) {
	inBoth(t, func(c *cluster) {
		clock := &stoppingClock{Clock: clock.System()}
		a, b := newInstance(c, "10.0.0.1", func(config *endpoints.Config) { config.SetClock(clock) }), newInstance(c,
			"10.0.0.2", nil)
		b.once(c)
		for range 3 {
			a.once(c)
			time.Sleep(interval)
		}
		c.stopAfterHeartbeat("10.0.0.1", clock, expiry)
		a.once(c)
		assert.Empty(c, a.told().expired)
		c.requirePublished("10.0.0.1", "10.0.0.2")
		assert.Len(c, c.keys(), 2)
	})
}

// The same after the store was lost.
func TestStopWithinARoundRemovesNoEndpoint(t *testing.T) {
	inBoth(t, func(c *cluster) {
		clock := &stoppingClock{Clock: clock.System()}
		a := newInstance(c, "10.0.0.1", func(config *endpoints.Config) { config.SetClock(clock) })
		newInstance(c, "10.0.0.2", nil).once(c)
		a.once(c)
		c.loseStore()
		a.once(c)
		time.Sleep(interval)
		c.stopAfterHeartbeat("10.0.0.1", clock, expiry)
		a.once(c)
		c.requirePublished("10.0.0.1", "10.0.0.2")
	})
}

// One instance sees the loss. Then all are cut off before the others have registered again.
func TestOutageAfterTheStoreWasLostRemovesNoEndpoint(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		a.once(c)
		b.once(c)
		c.loseStore()
		a.once(c)
		a.client.Inject(apisim.Faults{Refuse: apisim.Always})
		for range 20 {
			time.Sleep(interval)
			require.Error(c, a.ReconcileOnce(c.Context()))
		}
		a.client.Inject(apisim.Faults{})
		a.once(c)
		c.requirePublished("10.0.0.1", "10.0.0.2")
		b.once(c)
		c.requirePublished("10.0.0.1", "10.0.0.2")
	})
}

// An instance is silent for nearly too long, and dies later.
func TestInstanceThatWasSlowOnceIsNotWaitedForLonger(t *testing.T) {
	inBoth(t, func(c *cluster) {
		newInstance(c, "10.0.0.1", nil).start(c)
		b := newInstance(c, "10.0.0.2", nil)
		for range 2 {
			b.once(c)
			time.Sleep(expiry - 2*interval)
		}
		b.once(c)
		// The other looks up to an interval and its jitter after that heartbeat, and again as late
		// after the entry has expired.
		time.Sleep(expiry + 3*interval)
		c.requirePublished("10.0.0.1")
	})
}
