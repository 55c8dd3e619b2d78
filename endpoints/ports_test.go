package endpoints_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

// A port that the Service lacks is published, but no client gets to it. The log says so, again every ten
// minutes, and when it is mended.
func TestPortThatTheServiceLacksIsSaid(t *testing.T) {
	const warning = "no client of the Service gets to a port of this instance"
	inCluster(t, endpoints.ConfigMapStore{}, func(c *cluster) {
		patchPorts := func(ports string) {
			_, err := c.client.CoreV1().Services("ns").Patch(c.Context(), "web", types.MergePatchType,
				[]byte(`{"spec":{"ports":`+ports+`}}`), metav1.PatchOptions{})
			require.NoError(c, err)
		}
		i := newInstance(c, "10.0.0.1", nil).start(c)
		time.Sleep(time.Minute)
		assert.Empty(c, i.logs.FilterMessage(warning).All(), "a headless Service needs no ports")

		patchPorts(`[{"name":"web","port":443,"protocol":"TCP"},{"name":"https","port":443,"protocol":"UDP"}]`)
		time.Sleep(9 * time.Minute)
		said := i.logs.FilterMessage(warning).All()
		require.Len(c, said, 1)
		time.Sleep(2 * time.Minute)
		said = i.logs.FilterMessage(warning).All()
		require.Len(c, said, 2)
		assert.Equal(c, `endpoints: Service ns/web has no port "https" of TCP: add it to spec.ports, or rename it in `+
			`Config.Ports (the Service has "web" of TCP, "https" of UDP)`, said[0].ContextMap()["error"])
		c.requirePublished("10.0.0.1")

		patchPorts(`[{"name":"https","port":443}]`)
		time.Sleep(time.Minute)
		assert.Len(c, i.logs.FilterMessage("the Service has all ports of this instance").All(), 1)
		assert.Len(c, i.logs.FilterMessage(warning).All(), 2)
		require.NoError(c, i.stop())
	})
}

// The one port of a Service needs no name.
func TestPortsWithoutNames(t *testing.T) {
	inCluster(t, endpoints.ConfigMapStore{}, func(c *cluster) {
		_, err := c.client.CoreV1().Services("ns").Patch(c.Context(), "web", types.MergePatchType,
			[]byte(`{"spec":{"ports":[{"port":443}]}}`), metav1.PatchOptions{})
		require.NoError(c, err)
		i := newInstance(c, "10.0.0.1", func(config *endpoints.Config) {
			config.Ports = []endpoints.Port{{Number: 8443, Protocol: corev1.ProtocolTCP}}
		}).start(c)
		time.Sleep(time.Minute)
		assert.Empty(c, i.logs.FilterMessage("no client of the Service gets to a port of this instance").All())
		require.NoError(c, i.stop())
	})
}

// Nodes do not route to an address of a family that the Service lacks.
func TestAddressOfAFamilyThatTheServiceLacksIsSaid(t *testing.T) {
	const warning = "no client of the Service gets to an address of this instance"
	const v4, v6 = "10.0.0.1", "2001:db8::1"
	for name, e := range map[string]struct {
		service   string // its spec
		addresses []string
		want      string // error; empty: there is no warning
	}{
		"the other one": {
			`{"clusterIP":"10.96.0.1","ipFamilies":["IPv4"]}`,
			[]string{v6},
			"endpoints: Service ns/web has no address of the family of 2001:db8::1: set spec.ipFamilyPolicy or " +
				"spec.ipFamilies, or change Config.Addresses (the Service has [IPv4])",
		},
		"the other way round": {
			`{"clusterIP":"fd00::1","ipFamilies":["IPv6"]}`, []string{v4}, "of the family of 10.0.0.1: ",
		},
		"one of two": {
			`{"clusterIP":"10.96.0.1","ipFamilies":["IPv4"]}`, []string{v4, v6}, "of the family of 2001:db8::1: ",
		},
		"one of two, the other one": {
			`{"clusterIP":"fd00::1","ipFamilies":["IPv6"]}`, []string{v4, v6}, "of the family of 10.0.0.1: ",
		},
		"both":                     {`{"clusterIP":"10.96.0.1","ipFamilies":["IPv4","IPv6"]}`, []string{v6, v4}, ""},
		"both, IPv6 first":         {`{"clusterIP":"fd00::1","ipFamilies":["IPv6","IPv4"]}`, []string{v4, v6}, ""},
		"IPv6 of both":             {`{"clusterIP":"10.96.0.1","ipFamilies":["IPv4","IPv6"]}`, []string{v6}, ""},
		"IPv4 of both, IPv6 first": {`{"clusterIP":"fd00::1","ipFamilies":["IPv6","IPv4"]}`, []string{v4}, ""},
		"headless":                 {`{"clusterIP":"None","ipFamilies":["IPv4"]}`, []string{v6}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, endpoints.ConfigMapStore{}, func(c *cluster) {
				patch := func(spec string) {
					_, err := c.client.CoreV1().Services("ns").Patch(c.Context(), "web", types.MergePatchType,
						[]byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
					require.NoError(c, err)
				}
				patch(e.service)
				i := newInstance(c, v4, func(config *endpoints.Config) {
					config.Addresses = nil
					for _, a := range e.addresses {
						config.Addresses = append(config.Addresses, netip.MustParseAddr(a))
					}
				}).start(c)
				time.Sleep(9 * time.Minute)
				said := i.logs.FilterMessage(warning).All()
				c.requirePublished(e.addresses...)
				if e.want == "" {
					assert.Empty(c, said)
					require.NoError(c, i.stop())
					return
				}
				require.Len(c, said, 1)
				assert.Contains(c, said[0].ContextMap()["error"], e.want)
				patch(`{"ipFamilies":["IPv4","IPv6"]}`)
				time.Sleep(time.Minute)
				assert.Len(c, i.logs.FilterMessage(warning).All(), 1)
				const mended = "the Service has the families of all addresses of this instance"
				assert.Len(c, i.logs.FilterMessage(mended).All(), 1)
				require.NoError(c, i.stop())
			})
		})
	}
}
