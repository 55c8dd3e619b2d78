package endpoints_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

func inLeases(t *testing.T, test func(c *cluster)) {
	t.Helper()
	inCluster(t, stores["Leases"], test)
}

func (c *cluster) patchLease(name, patch string) {
	c.Helper()
	_, err := c.client.CoordinationV1().Leases("ns").Patch(c.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	require.NoError(c, err)
}

func TestLeaseOfAnInstance(t *testing.T) {
	inLeases(t, func(c *cluster) {
		i := newInstance(c, "2001:db8::1", nil)
		i.once(c)
		l, err := c.client.CoordinationV1().Leases("ns").Get(c.Context(), "ns.web.ip-2001-db8--1-443",
			metav1.GetOptions{})
		require.NoError(c, err)
		assert.Equal(c, map[string]string{endpoints.ServiceLabel: "web", endpoints.NamespaceLabel: "ns"}, l.Labels)
		assert.JSONEq(c, `{"addresses":["2001:db8::1"],"ports":[{"name":"https","port":443,"protocol":"TCP"}]}`,
			l.Annotations[endpoints.EndpointsAnnotation])
		assert.Equal(c, l.Name, *l.Spec.HolderIdentity)
		assert.EqualValues(c, 60, *l.Spec.LeaseDurationSeconds)
	})
}

func TestMalformedLeaseIsKeptAndReportedAndDoesNotSpread(t *testing.T) {
	annotation := func(value string) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, endpoints.EndpointsAnnotation, value)
	}
	for name, e := range map[string]struct{ patch, problem string }{
		"no annotation": {annotation("null"), "unexpected end"},
		"not JSON":      {annotation(`"x"`), "invalid character"},
		"no address":    {annotation(quote(`{"ports":[{"port":443,"protocol":"TCP"}]}`)), "no address"},
		"no port":       {annotation(quote(`{"addresses":["10.0.0.7"]}`)), "no port"},
		"bad address": {
			annotation(quote(`{"addresses":["10.0.0.6","x"],"ports":[{"port":443,"protocol":"TCP"}]}`)),
			"ParseAddr",
		},
		"loopback": {
			annotation(quote(`{"addresses":["10.0.0.6","::1"],"ports":[{"port":443,"protocol":"TCP"}]}`)),
			"loopback",
		},
		"bad port": {
			annotation(quote(`{"addresses":["10.0.0.7"],"ports":[{"port":0,"protocol":"TCP"}]}`)),
			"Number",
		},
		"never renewed": {`{"spec":{"renewTime":null}}`, "renewTime"},
	} {
		t.Run(name, func(t *testing.T) {
			inLeases(t, func(c *cluster) {
				_, err := c.client.CoordinationV1().Leases("ns").Create(c.Context(), deadLease(),
					metav1.CreateOptions{})
				require.NoError(c, err)
				c.patchLease("ns.web.ip-10-0-0-7-443", e.patch)
				i := newInstance(c, "10.0.0.1", nil)
				for range 20 {
					i.once(c)
					time.Sleep(interval)
				}
				assert.Equal(c, []string{"ns.web.ip-10-0-0-1-443", "ns.web.ip-10-0-0-7-443"}, c.keys())
				c.requirePublished("10.0.0.1")
				require.Len(c, i.told().malformed, 1)
				assert.ErrorContains(c, i.told().malformed[0].Problem, e.problem)
			})
		})
	}
}

func TestLeasesOfOthersAreLeftAlone(t *testing.T) {
	inLeases(t, func(c *cluster) {
		leases := c.client.CoordinationV1().Leases("ns")
		for name, labels := range map[string]map[string]string{
			"leader": nil, "other": {endpoints.ServiceLabel: "other", endpoints.NamespaceLabel: "ns"},
			"elsewhere": {endpoints.ServiceLabel: "web", endpoints.NamespaceLabel: "other"},
		} {
			_, err := leases.Create(c.Context(),
				&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}},
				metav1.CreateOptions{})
			require.NoError(c, err)
		}
		i := newInstance(c, "10.0.0.1", nil).start(c)
		time.Sleep(3 * expiry)
		require.NoError(c, i.stop())
		assert.Equal(c, []string{"elsewhere", "leader", "other"}, c.keys())
	})
}

func TestForeignLeaseOfOurNameIsLeftAloneAndReported(t *testing.T) {
	inLeases(t, func(c *cluster) {
		name := "ns.web.ip-10-0-0-1-443"
		_, err := c.client.CoordinationV1().Leases("ns").Create(c.Context(),
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(c, err)
		err = newInstance(c, "10.0.0.1", nil).ReconcileOnce(c.Context())
		require.ErrorIs(c, err, endpoints.ErrForeign)
		assert.ErrorContains(c, err, "Lease ns/"+name)
		l, err := c.client.CoordinationV1().Leases("ns").Get(c.Context(), name, metav1.GetOptions{})
		require.NoError(c, err)
		assert.Empty(c, l.Labels)
	})
}

func TestExpiredLeasesAreCollected(t *testing.T) {
	inLeases(t, func(c *cluster) {
		for n := range 600 { // two pages
			l := deadLease()
			l.Name = fmt.Sprintf("ns.web.dead-%d", n)
			l.Annotations[endpoints.EndpointsAnnotation] = strings.Replace(l.Annotations[endpoints.EndpointsAnnotation],
				"10.0.0.7", fmt.Sprintf("10.1.%d.%d", n/250, n%250), 1)
			_, err := c.client.CoordinationV1().Leases("ns").Create(c.Context(), l, metav1.CreateOptions{})
			require.NoError(c, err)
		}
		i := newInstance(c, "10.0.0.1", nil).start(c)
		assert.Len(c, c.published(), 601)
		time.Sleep(2 * expiry)
		assert.Equal(c, []string{"ns.web.ip-10-0-0-1-443"}, c.keys())
		assert.Len(c, i.told().expired, 600)
		c.requirePublished("10.0.0.1")
	})
}

func TestLeaseOfAnInstanceThatMayBeSilentForEver(t *testing.T) {
	inLeases(t, func(c *cluster) {
		newInstance(c, "10.0.0.1", func(config *endpoints.Config) {
			config.ExpireAfter = 100 * 365 * 24 * time.Hour
		}).once(c)
		l, err := c.client.CoordinationV1().Leases("ns").Get(c.Context(), "ns.web.ip-10-0-0-1-443", metav1.GetOptions{})
		require.NoError(c, err)
		assert.EqualValues(c, math.MaxInt32, *l.Spec.LeaseDurationSeconds)
	})
}

// An instance may not delete one of three Leases.
func TestRemovalThatFailsStopsNothingElse(t *testing.T) {
	inLeases(t, func(c *cluster) {
		for n := range 3 {
			l := deadLease()
			l.Name = fmt.Sprintf("dead-%d", n)
			l.Annotations[endpoints.EndpointsAnnotation] = strings.Replace(l.Annotations[endpoints.EndpointsAnnotation],
				"10.0.0.7", fmt.Sprintf("10.0.0.%d", 7+n), 1)
			_, err := c.client.CoordinationV1().Leases("ns").Create(c.Context(), l, metav1.CreateOptions{})
			require.NoError(c, err)
		}
		i := newInstance(c, "10.0.0.1", nil)
		i.client.Inject(apisim.Faults{Refuse: func(r *http.Request) bool {
			return r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "dead-1")
		}})
		for range 6 {
			i.once(c)
			time.Sleep(interval)
		}
		require.ErrorContains(c, i.ReconcileOnce(c.Context()), "endpoints: delete Lease ns/dead-1")
		assert.Equal(c, []string{"dead-1", "dead-2", "ns.web.ip-10-0-0-1-443"}, c.keys())
		assert.Len(c, i.told().expired, 1)
		assert.Equal(c, 1, i.lastRound().Removals)
		c.requirePublished("10.0.0.1", "10.0.0.8", "10.0.0.9")
		for _, s := range c.slices() {
			require.NoError(c,
				c.client.DiscoveryV1().EndpointSlices("ns").Delete(c.Context(), s.Name, metav1.DeleteOptions{}))
		}
		for range 6 { // it goes on, and does not forget who is dead
			require.Error(c, i.ReconcileOnce(c.Context()))
			c.requirePublished("10.0.0.1", "10.0.0.8", "10.0.0.9")
			time.Sleep(interval)
		}
	})
}

// The Lease of a dead instance keeps being labelled.
func TestEditOfALeaseIsNoHeartbeat(t *testing.T) {
	inLeases(t, func(c *cluster) {
		_, err := c.client.CoordinationV1().Leases("ns").Create(c.Context(), deadLease(), metav1.CreateOptions{})
		require.NoError(c, err)
		i := newInstance(c, "10.0.0.1", nil)
		for n := range 6 {
			i.once(c)
			c.patchLease("ns.web.ip-10-0-0-7-443", fmt.Sprintf(`{"metadata":{"labels":{"edit":"%d"}}}`, n))
			time.Sleep(interval)
		}
		i.once(c)
		assert.Len(c, i.told().expired, 1)
	})
}

// They do not hinder each other.
func TestInstancesThatRemoveTheSameLeasesTogether(t *testing.T) {
	inLeases(t, func(c *cluster) {
		const n = 30
		for i := range n {
			l := deadLease()
			l.Name = fmt.Sprintf("dead-%d", i)
			_, err := c.client.CoordinationV1().Leases("ns").Create(c.Context(), l, metav1.CreateOptions{})
			require.NoError(c, err)
		}
		both := []*instance{newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)}
		for range 6 {
			for _, i := range both {
				i.once(c)
			}
			time.Sleep(interval)
		}
		done := make(chan error, len(both))
		for _, i := range both {
			i.client.Inject(apisim.Faults{Latency: way})
			go func() { done <- i.ReconcileOnce(c.Context()) }()
			time.Sleep(way / 2)
		}
		require.NoError(c, <-done)
		require.NoError(c, <-done)
		assert.Len(c, append(both[0].told().expired, both[1].told().expired...), n, "each is reported once")
		assert.Len(c, c.keys(), 2)
	})
}
