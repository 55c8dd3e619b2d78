package endpoints_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// legacy returns the Endpoints object, nil if there is none.
func (c *cluster) legacy() *corev1.Endpoints { //nolint:staticcheck // that it is deprecated is no reason not to test it
	c.Helper()
	e, err := c.client.CoreV1().Endpoints("ns").Get(c.Context(), "web", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(c, err)
	return e
}

func withLegacy(config *endpoints.Config) { config.PublishEndpoints = true }

func TestLegacyEndpoints(t *testing.T) {
	inBoth(t, func(c *cluster) {
		marked := true
		c.server.Observe(func(change apisim.Change) {
			if change.After != nil && change.After.GetKind() == "Endpoints" {
				marked = marked && change.After.GetLabels()[discoveryv1.LabelSkipMirror] == "true"
			}
		})
		a := newInstance(c, "10.0.0.1", func(config *endpoints.Config) {
			withLegacy(config)
			config.Addresses = append(config.Addresses, netip.MustParseAddr("2001:db8::1"))
			config.Ports = append(config.Ports, endpoints.Port{Name: "metrics", Number: 9090})
		})
		b := newInstance(c, "10.0.0.2", withLegacy)
		a.once(c)
		b.once(c)
		assert.Equal(c, []string{
			"10.0.0.1:443/https", "10.0.0.1:9090/metrics", "10.0.0.2:443/https", "[2001:db8::1]:443/https",
			"[2001:db8::1]:9090/metrics",
		}, c.legacyPublished())
		assert.Equal(c, "Service", c.legacy().OwnerReferences[0].Kind)

		_, err := c.client.CoreV1().Endpoints("ns").Patch(c.Context(), "web", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"endpointslice.kubernetes.io/skip-mirror":null}},`+
				`"subsets":[{"notReadyAddresses":[{"ip":"10.0.0.1"}]}]}`), metav1.PatchOptions{})
		require.NoError(c, err)
		marked = true
		b.once(c)
		assert.Len(c, c.legacyPublished(), 5, "repaired")
		e := c.legacy()
		e.Subsets[0].NotReadyAddresses = append(e.Subsets[0].NotReadyAddresses, corev1.EndpointAddress{IP: "10.0.0.7"})
		_, err = c.client.CoreV1().Endpoints("ns").Update(c.Context(), e, metav1.UpdateOptions{})
		require.NoError(c, err)
		b.once(c)
		assert.Len(c, c.legacyPublished(), 5, "repaired")
		require.NoError(c, a.Withdraw(c.Context()))
		assert.Equal(c, []string{"10.0.0.2:443/https"}, c.legacyPublished())
		require.NoError(c, b.Withdraw(c.Context()))
		assert.Empty(c, c.legacyPublished())
		assert.True(c, marked, "whenever it was written")
	})
}

func (c *cluster) legacyPublished() []string {
	c.Helper()
	var all []string
	for _, s := range c.legacy().Subsets {
		assert.Empty(c, s.NotReadyAddresses)
		for _, a := range s.Addresses {
			for _, p := range s.Ports {
				all = append(all,
					fmt.Sprintf("%s/%s", netip.AddrPortFrom(netip.MustParseAddr(a.IP), uint16(p.Port)), p.Name))
			}
		}
	}
	slices.Sort(all)
	return all
}

func TestForeignEndpointsAreLeftAloneAndReported(t *testing.T) {
	inBoth(t, func(c *cluster) {
		_, err := c.client.CoreV1().Endpoints("ns").Create(c.Context(),
			&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, //nolint:staticcheck // see legacy
			metav1.CreateOptions{})
		require.NoError(c, err)
		before := c.legacy()
		i := newInstance(c, "10.0.0.1", withLegacy)
		err = i.ReconcileOnce(c.Context())
		require.ErrorIs(c, err, endpoints.ErrForeign)
		assert.ErrorContains(c, err, "Endpoints ns/web")
		c.requirePublished("10.0.0.1")
		require.NoError(c, i.Withdraw(c.Context()))
		c.requirePublished()
		assert.Equal(c, before, c.legacy())
	})
}

func TestEndpointsAreLeftAloneUnlessAskedFor(t *testing.T) {
	inBoth(t, func(c *cluster) {
		newInstance(c, "10.0.0.1", nil).start(c)
		time.Sleep(expiry)
		assert.Nil(c, c.legacy())
		for _, s := range c.server.Trace() {
			if s.Client != "admin" {
				assert.NotContains(c, s.Path, "/endpoints/")
			}
		}
	})
}

func TestEndpointsFromAnOlderViewAreDecidedAgain(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b, third := newInstance(c, "10.0.0.1", withLegacy), newInstance(c, "10.0.0.2", withLegacy), newInstance(c,
			"10.0.0.3", withLegacy)
		third.once(c)
		slowly(c, a, func() error { return a.ReconcileOnce(c.Context()) }, func() { b.once(c) })
		assert.Equal(c, 1, c.refusalsOf("10.0.0.1", "endpoints/"))
		assert.Equal(c, []string{"10.0.0.1:443/https", "10.0.0.2:443/https", "10.0.0.3:443/https"}, c.legacyPublished())
	})
}
