package fencing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing"
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

// What proves that a node has failed is good for a second: that has to be enough to look at it, and
// for one request, however long the API server takes for an answer within reason.
func TestSlowAPIServer(t *testing.T) {
	for _, latency := range []time.Duration{120 * time.Millisecond, 300 * time.Millisecond, 450 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				breaches := w.referee()
				for i := range 5 {
					w.pod(fmt.Sprintf("db-%d", i), "n1")
				}
				r := &told{}
				c := w.start("a", func(c *fencing.Config) { c.Events = r },
					func(c *apisim.Client) { c.Inject(apisim.Faults{Latency: latency}) })
				defer c.stop()
				wait(w.ctx, settled)
				w.lose("n1")
				took := w.eventually(time.Minute, "the pods are released",
					func() bool { return len(w.pods("n1")) == 0 })
				t.Logf("released after %v", took)
				w.ends("n1", v1alpha1.PhaseFinal)
				w.requireFencedOnce("n1")
				assert.Zero(t, r.count("Warning ProofTooOld"))
				assert.Empty(t, breaches())
			})
		})
	}
}

// If it takes longer, no proof is in time. The record says so, and the release goes on when the API
// server is quick again.
func TestAPIServerThatIsTooSlowToReleaseAnything(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		breaches := w.referee()
		w.pod("db-0", "n1")
		r := &told{}
		c := w.start("a", func(c *fencing.Config) { c.Events = r })
		defer c.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		w.ends("n1", v1alpha1.PhaseIsolated)
		c.client.Inject(apisim.Faults{Latency: 600 * time.Millisecond})
		w.eventually(5*time.Minute, "n1 is off", func() bool { return !w.rack.On("n1") })
		w.cutOff("n1", false)
		w.eventually(5*time.Minute, "it is said", func() bool { return r.count("Warning ProofTooOld") > 0 })
		wait(w.ctx, 5*time.Minute)
		assert.Equal(t, []string{"db-0"}, w.pods("n1"))
		assert.Equal(t, "ProofTooOld", w.fence("n1").Status.Hold.Reason)
		assert.Equal(t, 1, r.count("Warning ProofTooOld"), "once")
		c.client.Inject(apisim.Faults{})
		w.eventually(30*time.Second, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
		w.ends("n1", v1alpha1.PhaseFinal)
		w.requireFencedOnce("n1")
		assert.Nil(t, w.fence("n1").Status.Hold)
		assert.Empty(t, breaches())
	})
}
