package endpoints_test

import (
	"net/http"
	"net/netip"
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

const finalizers = `{"metadata":{"finalizers":["example.org/keep"]}}`

// keepLease keeps the Lease of an address after its deletion.
func (c *cluster) keepLease(address string) (name string) {
	c.Helper()
	name = "ns.web." + endpoints.EntryKey(netip.MustParseAddr(address), 443)
	c.patchLease(name, finalizers)
	return name
}

// requireFor requires that exactly these endpoints are published, for some time.
func (c *cluster) requireFor(d time.Duration, want ...string) {
	c.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(interval / 4) {
		c.requirePublished(want...)
	}
}

// deletions returns how often the API server was asked to delete Leases.
func (c *cluster) deletions() (n int) {
	c.Helper()
	for _, s := range c.server.Trace() {
		if s.Method == http.MethodDelete && s.Client != "admin" && strings.Contains(s.Path, "/leases/") {
			n++
		}
	}
	return n
}

func TestDeadInstanceWhoseLeaseIsKeptStaysRemoved(t *testing.T) {
	inLeases(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil).start(c), newInstance(c, "10.0.0.2", nil).start(c)
		dead := newInstance(c, "10.0.0.7", nil).start(c)
		name := c.keepLease("10.0.0.7")
		_ = dead.die()
		time.Sleep(expiry + 2*interval)
		c.requireFor(time.Hour, "10.0.0.1", "10.0.0.2")
		assert.Len(c, append(a.told().expired, b.told().expired...), 1)
		assert.LessOrEqual(c, c.deletions(), 2)

		newInstance(c, "10.0.0.3", nil).start(c)
		c.requireFor(3*expiry, "10.0.0.1", "10.0.0.2", "10.0.0.3")
		for _, i := range []*instance{a, b} { // which forget what they have observed
			i.client.Inject(apisim.Faults{Refuse: apisim.Always})
		}
		time.Sleep(30 * time.Second)
		for _, i := range []*instance{a, b} {
			i.client.Inject(apisim.Faults{})
		}
		c.requireFor(3*expiry, "10.0.0.1", "10.0.0.2", "10.0.0.3")

		again := newInstance(c, "10.0.0.7", nil).start(c)
		c.requireFor(3*expiry, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.7")
		c.patchLease(name, `{"metadata":{"finalizers":null}}`)
		time.Sleep(interval + interval/4) // until its next heartbeat, as after any deletion
		c.requireFor(3*expiry, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.7")
		require.NoError(c, again.stop())
	})
}

func TestWithdrawnInstanceWhoseLeaseIsKeptStaysRemoved(t *testing.T) {
	t.Run("ends", func(t *testing.T) {
		inLeases(t, func(c *cluster) {
			newInstance(c, "10.0.0.1", nil).start(c)
			i := newInstance(c, "10.0.0.7", nil).start(c)
			c.keepLease("10.0.0.7")
			require.NoError(c, i.stop())
			c.requireFor(10*time.Minute, "10.0.0.1")
		})
	})
	t.Run("is not ready", func(t *testing.T) {
		inLeases(t, func(c *cluster) {
			newInstance(c, "10.0.0.1", nil).start(c)
			i := newInstance(c, "10.0.0.7", nil).start(c)
			c.keepLease("10.0.0.7")
			i.setReady(errUnwell)
			time.Sleep(2 * interval)
			c.requireFor(10*time.Minute, "10.0.0.1")
			assert.Equal(c, 1, i.logs.FilterMessage("withdrawn").Len())
			i.setReady(nil)
			time.Sleep(2 * interval)
			c.requireFor(10*time.Minute, "10.0.0.1", "10.0.0.7")
		})
	})
	t.Run("was restarted with another port", func(t *testing.T) {
		inLeases(t, func(c *cluster) {
			var k kernel
			newInstance(c, "10.0.0.1", nil).start(c)
			i := k.of(c, "10.0.0.7", "pod", nil).start(c)
			c.keepLease("10.0.0.7")
			_ = i.die()
			i = k.of(c, "10.0.0.7", "pod", withPorts(https8443)).start(c)
			c.requireFor(10*time.Minute, "10.0.0.1", "10.0.0.7:8443/https")
			assert.Equal(c, 1, i.logs.FilterMessage("withdrawn").Len())
		})
	})
}

// An administrator deletes the Lease of an instance that lives.
func TestLiveInstanceWhoseLeaseIsKeptStaysPublished(t *testing.T) {
	inLeases(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil).start(c), newInstance(c, "10.0.0.2", nil).start(c)
		i := newInstance(c, "10.0.0.7", nil).start(c)
		require.NoError(c, c.client.CoordinationV1().Leases("ns").Delete(c.Context(), c.keepLease("10.0.0.7"),
			metav1.DeleteOptions{}))
		c.requireFor(10*time.Minute, "10.0.0.1", "10.0.0.2", "10.0.0.7")
		c.deleteSlices()
		time.Sleep(interval + interval/4)
		c.requireFor(10*time.Minute, "10.0.0.1", "10.0.0.2", "10.0.0.7")
		newInstance(c, "10.0.0.3", nil).start(c)
		c.requireFor(3*expiry, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.7")

		_ = i.die()
		time.Sleep(expiry + 2*interval)
		c.requireFor(10*time.Minute, "10.0.0.1", "10.0.0.2", "10.0.0.3")
		assert.LessOrEqual(c, len(append(a.told().expired, b.told().expired...)), 2)
	})
}

func (c *cluster) deleteSlices() {
	c.Helper()
	require.NoError(c, c.client.DiscoveryV1().EndpointSlices("ns").DeleteCollection(c.Context(),
		metav1.DeleteOptions{}, metav1.ListOptions{}))
}

// A finalizer keeps the slice that is to be deleted.
func TestSliceThatIsKeptHasNoEndpoint(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a := newInstance(c, "10.0.0.1", nil).start(c)
		b := newInstance(c, "10.0.0.2", withPorts(https8443)).start(c)
		c.requirePublished("10.0.0.1", "10.0.0.2:8443/https")
		var kept discoveryv1.EndpointSlice
		for _, s := range c.slices() {
			if *s.Ports[0].Port == 8443 {
				kept = s
			}
		}
		_, err := c.client.DiscoveryV1().EndpointSlices("ns").Patch(c.Context(), kept.Name, types.MergePatchType,
			[]byte(finalizers), metav1.PatchOptions{})
		require.NoError(c, err)
		require.NoError(c, b.stop())
		c.requirePublished("10.0.0.1")
		time.Sleep(2 * interval)
		assert.Len(c, c.slices(), 2)
		written := c.written()
		said := len(a.told().published)
		c.requireFor(10*time.Minute, "10.0.0.1")
		assert.Zero(c, written()["endpointslices"])
		assert.Len(c, a.told().published, said)

		newInstance(c, "10.0.0.2", withPorts(https8443)).start(c)
		c.requireFor(time.Minute, "10.0.0.1", "10.0.0.2:8443/https")
		_, err = c.client.DiscoveryV1().EndpointSlices("ns").Patch(c.Context(), kept.Name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.NoError(c, err)
		time.Sleep(2 * interval)
		c.requireFor(time.Minute, "10.0.0.1", "10.0.0.2:8443/https")
	})
}
