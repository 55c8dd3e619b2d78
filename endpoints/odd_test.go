package endpoints_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

// requests are all that instances send, by their store. Those that are the same with both are with
// one of them.
var requests = map[string][]string{
	"ConfigMap": {
		"GET web-endpoints", "POST configmaps", "PATCH configmaps",
		"GET services", "GET settings", "GET endpointslices", "POST endpointslices", "PUT endpointslices",
		"DELETE endpointslices",
		"GET endpoints", "POST endpoints", "PUT endpoints",
	},
	"Leases": {"GET leases", "POST leases", "PUT leases", "DELETE leases"},
}

// withOddAnswers runs a test for each request and each odd answer to it, which comes instead of the
// API server's, or after it. through lets an instance get that answer from then on; meanwhile is
// done before the first.
func withOddAnswers(t *testing.T, test func(c *cluster, through func(i *instance, meanwhile func()))) {
	t.Helper()
	for name, store := range stores {
		for _, request := range requests[name] {
			t.Run(name+" "+request, func(t *testing.T) {
				t.Parallel()
				for name, odd := range oddAnswers {
					withOddAnswer(t, store, request, name, odd, test)
					if !strings.HasPrefix(request, http.MethodGet) && odd.contentType == "text/html" {
						odd.late = true
						withOddAnswer(t, store, request, name, odd, test)
					}
				}
			})
		}
	}
}

func withOddAnswer(t *testing.T, store endpoints.Store, request, name string, odd oddAnswer,
	test func(c *cluster, through func(*instance, func())),
) {
	t.Helper()
	inCluster(t, store, func(c *cluster) {
		defer func() {
			if c.Failed() {
				c.Logf("this was about %s, late: %v", name, odd.late)
			}
		}()
		c.createConfigMap("settings", map[string]string{"expire-duration": "1m"})
		test(c, func(i *instance, meanwhile func()) {
			var once sync.Once
			i.gateway.set(func(r *http.Request) *oddAnswer {
				if !asks(r, request) {
					return nil
				}
				once.Do(meanwhile)
				return &odd
			})
		})
	})
}

// full makes an instance that sends all kinds of requests.
func full(config *endpoints.Config) {
	config.PublishEndpoints, config.Settings = true, "settings"
}

func nothing() {}

// An instance that is about to remove a dead one gets odd answers.
func TestOddAnswerRemovesNoInstance(t *testing.T) {
	withOddAnswers(t, func(c *cluster, through func(*instance, func())) {
		a, b := newInstance(c, "10.0.0.1", full), newInstance(c, "10.0.0.2", full)
		newInstance(c, "10.0.0.9", full).once(c)
		for range 6 {
			a.once(c)
			b.once(c)
			time.Sleep(interval)
		}
		through(a, nothing)
		for range 2 {
			_ = a.ReconcileOnce(c.Context())
			published := c.published()
			assert.Subset(c, published, []string{"10.0.0.1:443/https", "10.0.0.2:443/https"})
			assert.Subset(c, c.addressesInStore(), []string{"10.0.0.1", "10.0.0.2"})
		}
		a.gateway.set(nil)
		a.once(c)
		b.once(c)
		c.requirePublished("10.0.0.1", "10.0.0.2")
		assert.Equal(c, []string{"10.0.0.1", "10.0.0.2"}, c.addressesInStore())
	})
}

// The instance to be removed refreshes its entry before the odd answer arrives.
func TestOddAnswerToARemovalTakesNoRefreshedEntryAway(t *testing.T) {
	withOddAnswers(t, func(c *cluster, through func(*instance, func())) {
		a, b := newInstance(c, "10.0.0.1", full), newInstance(c, "10.0.0.2", full)
		b.once(c)
		for range 6 {
			a.once(c)
			time.Sleep(interval)
		}
		through(a, func() { b.once(c) })
		_ = a.ReconcileOnce(c.Context())
		a.gateway.set(nil)
		if len(a.told().expired) == 0 { // or it was removed before that request, rightly
			c.requirePublished("10.0.0.1", "10.0.0.2")
		}
		a.once(c)
		b.once(c)
		c.requirePublished("10.0.0.1", "10.0.0.2")
	})
}

// A withdrawal that reports success has succeeded.
func TestOddAnswerIsNoWithdrawal(t *testing.T) {
	withOddAnswers(t, func(c *cluster, through func(*instance, func())) {
		a, b := newInstance(c, "10.0.0.1", full), newInstance(c, "10.0.0.2", full)
		a.once(c)
		b.once(c)
		through(a, nothing)
		ctx, cancel := context.WithTimeout(c.Context(), 3*time.Second)
		defer cancel()
		err := a.Withdraw(ctx)
		if err == nil {
			c.requirePublished("10.0.0.2")
		}
		a.gateway.set(nil)
		if err != nil {
			require.NoError(c, a.Withdraw(c.Context()))
		}
		b.once(c)
		c.requirePublished("10.0.0.2")
		assert.Equal(c, []string{"10.0.0.2"}, c.addressesInStore())
	})
}

// TestOddAnswerLeavesNoStaleEntry gives them to an instance that is not ready. The instance finds
// what its predecessor has left: with the ConfigMap under a key of its own and under another one,
// with Leases under another one.
func TestOddAnswerLeavesNoStaleEntry(t *testing.T) {
	withOddAnswers(t, func(c *cluster, through func(*instance, func())) {
		var k kernel
		ports := func(all ...endpoints.Port) func(*endpoints.Config) {
			return func(config *endpoints.Config) {
				full(config)
				config.Ports = all
			}
		}
		_ = k.of(c, "10.0.0.1", "pod-1", ports(https, http8080)).start(c).die()
		b := newInstance(c, "10.0.0.2", full)
		b.once(c)
		again := k.of(c, "10.0.0.1", "pod-1", ports(http8080))
		again.setReady(errUnwell)
		through(again, nothing)
		require.Error(c, again.ReconcileOnce(c.Context()))
		again.gateway.set(nil)
		require.ErrorIs(c, again.ReconcileOnce(c.Context()), endpoints.ErrNotReady)
		c.requirePublished("10.0.0.2")
		b.once(c)
		c.requirePublished("10.0.0.2")
		assert.Equal(c, []string{"10.0.0.2"}, c.addressesInStore())
	})
}

// The first instances of a Service get odd answers.
func TestOddAnswersKeepNoInstanceOut(t *testing.T) {
	withOddAnswers(t, func(c *cluster, through func(*instance, func())) {
		a, b := newInstance(c, "10.0.0.1", full), newInstance(c, "10.0.0.2", full)
		through(a, nothing)
		_ = a.ReconcileOnce(c.Context())
		b.once(c)
		_ = a.ReconcileOnce(c.Context())
		assert.Contains(c, c.published(), "10.0.0.2:443/https")
		a.gateway.set(nil)
		a.once(c)
		b.once(c)
		c.requirePublished("10.0.0.1", "10.0.0.2")
	})
}

// A proxy finds all heartbeats too large, for longer than instances may be silent. That is an outage, and
// no full store: it removes none.
func TestRequestsThatAProxyFindsTooLargeRemoveNoInstance(t *testing.T) {
	inCluster(t, stores["ConfigMap"], func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		a.once(c)
		b.once(c)
		a.once(c)
		for _, i := range []*instance{a, b} {
			i.gateway.set(func(r *http.Request) *oddAnswer {
				if !asks(r, "PATCH configmaps") {
					return nil
				}
				odd := oddAnswers["too large for a proxy"]
				return &odd
			})
		}
		for range 8 {
			for _, i := range []*instance{a, b} {
				assert.NotErrorIs(c, i.ReconcileOnce(c.Context()), endpoints.ErrFull)
			}
			time.Sleep(interval)
		}
		a.gateway.set(nil)
		a.once(c)
		c.requirePublished("10.0.0.1", "10.0.0.2")
	})
}
