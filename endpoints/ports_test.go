package endpoints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

// A port that the Service lacks is published, but no client gets to it. The log says so once, and when
// it is mended.
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
		time.Sleep(10 * time.Minute)
		said := i.logs.FilterMessage(warning).All()
		require.Len(c, said, 1)
		assert.Equal(c, `endpoints: Service ns/web has no port "https" of TCP: add it to spec.ports, or rename it in `+
			`Config.Ports (the Service has "web" of TCP, "https" of UDP)`, said[0].ContextMap()["error"])
		c.requirePublished("10.0.0.1")

		patchPorts(`[{"name":"https","port":443}]`)
		time.Sleep(time.Minute)
		assert.Len(c, i.logs.FilterMessage("the Service has all ports of this instance").All(), 1)
		assert.Len(c, i.logs.FilterMessage(warning).All(), 1)
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
