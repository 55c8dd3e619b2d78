package endpoints_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// TestSlicesAreFilledAndSplit has more instances than a slice may have.
func TestSlicesAreFilledAndSplit(t *testing.T) {
	inLeases(t, func(c *cluster) {
		many := func(config *endpoints.Config) {
			for n := range 2500 {
				config.Addresses = append(config.Addresses,
					netip.AddrFrom4([4]byte{10, 1, byte(n / 250), byte(n % 250)}))
			}
		}
		i := newInstance(c, "10.0.0.1", func(config *endpoints.Config) {
			many(config)
			withLegacy(config)
		})
		i.once(c)
		var sizes []int
		for _, s := range c.slices() {
			sizes = append(sizes, len(s.Endpoints))
		}
		slices.Sort(sizes)
		assert.Equal(c, []int{501, 1000, 1000}, sizes)
		assert.Len(c, c.published(), 2501)
		require.Len(c, c.legacy().Subsets, 1)
		assert.Len(c, c.legacy().Subsets[0].Addresses, 1000)
		assert.Equal(c, "truncated", c.legacy().Annotations["endpoints.kubernetes.io/over-capacity"])
		written := c.written()
		i.once(c)
		assert.Equal(c, map[string]int{"leases": 1}, written())
		require.NoError(c, i.Withdraw(c.Context()))
		for _, event := range i.told().events {
			assert.LessOrEqual(c, len(event), len("Normal web EndpointWithdrawn ")+1024,
				"the API server takes no longer ones")
		}
		assert.Len(c, i.told().events, 1)
		assert.Empty(c, c.slices())
		assert.NotContains(c, c.legacy().Annotations, "endpoints.kubernetes.io/over-capacity")
	})
}

// TestEndpointsMoveWithoutAGap lets an address have another set of ports, so that what it had comes
// into other slices.
func TestEndpointsMoveWithoutAGap(t *testing.T) {
	inBoth(t, func(c *cluster) {
		metrics, admin := endpoints.Port{Name: "metrics", Number: 9090}, endpoints.Port{Name: "admin", Number: 8081}
		other := func(ports ...endpoints.Port) func(*endpoints.Config) {
			return func(config *endpoints.Config) { config.Ports = ports }
		}
		newInstance(c, "10.0.0.1", nil).start(c)
		newInstance(c, "10.0.0.2", other(https, metrics)).start(c)
		gaps, seen := 0, false
		published := map[string]map[string]bool{}
		c.server.Observe(func(change apisim.Change) {
			o := change.After
			if o == nil {
				o = change.Before
			}
			if o.GetKind() != "EndpointSlice" {
				return
			}
			published[o.GetName()] = addressesOn443(change.After)
			missing := true
			for _, addresses := range published {
				missing = missing && !addresses["10.0.0.1"]
			}
			if seen = seen || !missing; seen && missing {
				gaps++
			}
		})
		c.touchSlices()
		// On the address of the first instance one with other ports comes and goes.
		third := newInstance(c, "10.0.0.1", other(admin, metrics)).start(c)
		time.Sleep(interval)
		c.requirePublished("10.0.0.1", "10.0.0.1:8081/admin", "10.0.0.1:9090/metrics", "10.0.0.2",
			"10.0.0.2:9090/metrics")
		require.NoError(c, third.stop())
		time.Sleep(interval)
		c.requirePublished("10.0.0.1", "10.0.0.2", "10.0.0.2:9090/metrics")
		assert.True(c, seen)
		assert.Zero(c, gaps)
	})
}

// touchSlices has every slice seen by who observes the server.
func (c *cluster) touchSlices() {
	c.Helper()
	for n, s := range c.slices() {
		s.Annotations = map[string]string{"touched": fmt.Sprint(n)}
		_, err := c.client.DiscoveryV1().EndpointSlices("ns").Update(c.Context(), &s, metav1.UpdateOptions{})
		require.NoError(c, err)
	}
}

func addressesOn443(o *apisim.Object) map[string]bool {
	all := map[string]bool{}
	if o == nil {
		return all
	}
	ports, _, _ := unstructured.NestedSlice(o.Content(), "ports")
	if !slices.ContainsFunc(ports, func(p any) bool { return p.(map[string]any)["port"] == int64(443) }) {
		return all
	}
	list, _, _ := unstructured.NestedSlice(o.Content(), "endpoints")
	for _, e := range list {
		addresses, _, _ := unstructured.NestedStringSlice(e.(map[string]any), "addresses")
		for _, a := range addresses {
			all[a] = true
		}
	}
	return all
}
