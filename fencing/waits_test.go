package fencing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// Who configures no wait gets none, and not the default.
func TestNoWaitIsNotTheDefault(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		maps := w.client.CoreV1().ConfigMaps("fencing")
		m, err := maps.Get(w.ctx, "fence-config-type-worker", metav1.GetOptions{})
		require.NoError(t, err)
		m.Data["config.properties"] = strings.NewReplacer("not_ready_for=10s", "not_ready_for=0s", "power_wait=20s",
			"power_wait=0s").Replace(settings)
		_, err = maps.Update(w.ctx, m, metav1.UpdateOptions{})
		require.NoError(t, err)
		c := w.start("a", nil)
		defer c.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		w.eventually(5*time.Minute, "n1 is not Ready", func() bool {
			for _, c := range w.node("n1").Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
					return true
				}
			}
			return false
		})
		w.eventually(10*time.Second, "n1 is off", func() bool { return !w.rack.On("n1") })
	})
}

// What proves that a node has failed is good for a second: that has to be enough to look at it,
// however long the API server takes for an answer within reason.
func TestSlowAPIServer(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.pod("db-0", "n1")
		c := w.start("a", nil, func(c *apisim.Client) { c.Inject(apisim.Faults{Latency: 120 * time.Millisecond}) })
		defer c.stop()
		wait(w.ctx, settled)
		w.lose("n1")
		w.ends("n1", v1alpha1.PhaseFinal)
		w.requireFencedOnce("n1")
	})
}
