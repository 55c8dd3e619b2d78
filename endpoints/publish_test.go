package endpoints_test

import (
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

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
			[]byte(`{"metadata":{"labels":{"endpointslice.kubernetes.io/managed-by":"somebody"}}}`),
			metav1.PatchOptions{})
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
		"address removed": `{"endpoints":[{"addresses":["10.0.0.1"]}]}`,
		"address added": `{"endpoints":[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.2"]},` +
			`{"addresses":["10.0.0.7"]}]}`,
		"not ready": `{"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":false}},` +
			`{"addresses":["10.0.0.2"]}]}`,
		"another port":      `{"ports":[{"name":"https","port":444,"protocol":"TCP"}]}`,
		"another port name": `{"ports":[{"name":"http","port":443,"protocol":"TCP"}]}`,
		"another protocol":  `{"ports":[{"name":"https","port":443,"protocol":"UDP"}]}`,
		"a port added": `{"ports":[{"name":"https","port":443,"protocol":"TCP"},{"name":"more","port":444,` +
			`"protocol":"TCP"}]}`,
		"an address twice": `{"endpoints":[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.2"]},` +
			`{"addresses":["10.0.0.2"]}]}`,
		"no owner":     `{"metadata":{"ownerReferences":null}}`,
		"no endpoints": `{"endpoints":[]}`,
		"no ports":     `{"ports":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(c *cluster) {
				a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
				a.once(c)
				b.once(c)
				_, err := c.client.DiscoveryV1().EndpointSlices("ns").
					Patch(c.Context(), c.slices()[0].Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				require.NoError(c, err)
				for range 7 { // an endpoint without an entry stays until its instance had the time to register
					time.Sleep(interval)
					a.once(c)
					b.once(c)
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
		_, err := c.client.DiscoveryV1().EndpointSlices("ns").Patch(c.Context(), c.slices()[0].Name,
			types.MergePatchType,
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
			config.Addresses = append(config.Addresses,
				netip.MustParseAddr("2001:db8::"+config.Addresses[0].String()[7:]))
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
		assert.Zero(c, written()["endpointslices"], "no instance fights for it")
		require.NoError(c, b.Withdraw(c.Context()))
		c.requirePublished("10.0.0.1", "10.0.0.1:9090/metrics", "10.0.0.2:8443/https", "2001:db8::1",
			"[2001:db8::1]:9090/metrics")
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
		unready := newInstance(c, "10.0.0.1", nil)
		unready.setReady(errUnwell)
		unready.start(c).ran = true
		require.ErrorIs(c, <-unready.result, endpoints.ErrSelector)
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
		assert.Equal(c, 1, i.logs.FilterMessage("round failed in part, retrying").Len())
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

// A slice of ours was replaced by one of another family, which is immutable.
func TestSliceOfAnotherFamilyIsReplaced(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i := newInstance(c, "10.0.0.1", nil)
		i.once(c)
		s := c.slices()[0]
		require.NoError(c,
			c.client.DiscoveryV1().EndpointSlices("ns").Delete(c.Context(), s.Name, metav1.DeleteOptions{}))
		s.ResourceVersion, s.UID, s.AddressType, s.Endpoints = "", "", discoveryv1.AddressTypeIPv6, nil
		_, err := c.client.DiscoveryV1().EndpointSlices("ns").Create(c.Context(), &s, metav1.CreateOptions{})
		require.NoError(c, err)
		i.once(c)
		c.requirePublished("10.0.0.1")
	})
}

// Instances that registered before add nothing, and remove what they have added.
func TestServiceThatGetsASelector(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", withLegacy).start(c), newInstance(c, "10.0.0.2", withLegacy).start(c)
		_, err := c.client.CoreV1().Services("ns").Patch(c.Context(), "web", types.MergePatchType,
			[]byte(`{"spec":{"selector":{"app":"web"}}}`), metav1.PatchOptions{})
		require.NoError(c, err)
		written, before := c.written(), c.legacy()
		time.Sleep(expiry)
		assert.Empty(c, written())
		require.ErrorIs(c, b.lastRound().Err, endpoints.ErrSelector)
		require.NoError(c, a.stop())
		c.requirePublished("10.0.0.2")
		assert.Equal(c, before, c.legacy(), "which is Kubernetes' now")
		require.NoError(c, c.client.CoreV1().Endpoints("ns").Delete(c.Context(), "web", metav1.DeleteOptions{}))
		require.NoError(c, b.stop())
		c.requirePublished()
		assert.Empty(c, c.keys())
		assert.Nil(c, c.legacy())
	})
}

// A repair leaves the published endpoints as before.
func TestRepairIsNoChange(t *testing.T) {
	for _, patch := range []string{
		`{"metadata":{"ownerReferences":null}}`, `{"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true,` +
			`"serving":true,"terminating":false}},{"addresses":["10.0.0.1"]}]}`,
	} {
		inBoth(t, func(c *cluster) {
			i := newInstance(c, "10.0.0.1", nil)
			i.once(c)
			_, err := c.client.DiscoveryV1().EndpointSlices("ns").Patch(c.Context(), c.slices()[0].Name,
				types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			require.NoError(c, err)
			i.once(c)
			assert.Equal(c, 1, i.lastRound().Publications)
			assert.Len(c, i.told().published, 1)
		})
	}
}

// It leaves repairs to the published instances.
func TestInstanceThatIsNotReadyRepairsNothing(t *testing.T) {
	inBoth(t, func(c *cluster) {
		newInstance(c, "10.0.0.1", nil).once(c)
		_, err := c.client.DiscoveryV1().EndpointSlices("ns").Patch(c.Context(), c.slices()[0].Name,
			types.MergePatchType,
			[]byte(`{"endpoints":[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.8"]}]}`), metav1.PatchOptions{})
		require.NoError(c, err)
		i := newInstance(c, "10.0.0.2", nil)
		i.setReady(errUnwell)
		i.start(c)
		written := c.written()
		time.Sleep(2 * expiry)
		require.NoError(c, i.stop())
		assert.Empty(c, written())
	})
}

// blind is a connection on which nothing is selected: whatever is asked for, all is answered.
type blind struct{ http.RoundTripper }

func (b blind) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	query := r.URL.Query()
	query.Del("labelSelector")
	r.URL.RawQuery = query.Encode()
	return b.RoundTripper.RoundTrip(r)
}

// A list also returns objects of others. The instance neither publishes nor changes them.
func TestClientThatDoesNotSelect(t *testing.T) {
	inBoth(t, func(c *cluster) {
		foreign := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Name:   "foreign",
				Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}},
		}
		foreign, err := c.client.DiscoveryV1().EndpointSlices("ns").Create(c.Context(), foreign, metav1.CreateOptions{})
		require.NoError(c, err)
		lease := deadLease()
		lease.Labels[endpoints.NamespaceLabel] = "other"
		_, err = c.client.CoordinationV1().Leases("ns").Create(c.Context(), lease, metav1.CreateOptions{})
		require.NoError(c, err)
		connection := c.server.Client("blind").Config()
		connection.Wrap(func(rt http.RoundTripper) http.RoundTripper { return blind{rt} })
		config := validConfig()
		config.Store = c.store
		r, err := endpoints.New(kubernetes.NewForConfigOrDie(connection), config)
		require.NoError(c, err)
		require.NoError(c, r.ReconcileOnce(c.Context()))
		c.requirePublished("10.0.0.1")
		require.NoError(c, r.Withdraw(c.Context()))
		assert.Equal(c, []discoveryv1.EndpointSlice{*foreign}, c.slices())
	})
}
