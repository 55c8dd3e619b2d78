package fencing_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// password gives n1 a device whose password is in a Secret.
func (w *world) password() {
	w.t.Helper()
	_, err := w.client.CoreV1().Secrets("fencing").Create(w.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bmc"}, Data: map[string][]byte{"password": []byte("secret")},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.odd("fence_rack", "password.secret=bmc/password\n")
}

// A command whose Secret is gone counts as a try: the fence comes to its end, reports it, and keeps
// no other node waiting.
func TestSecretThatIsDeletedDuringAFence(t *testing.T) {
	for name, c := range variants(map[string]struct {
		phase v1alpha1.Phase
		stop  bool
		off   int // commands
	}{
		"before the power is off":            {v1alpha1.PhaseIsolated, false, 0},
		"while the power is off":             {v1alpha1.PhaseRestoring, false, 1},
		"while the power is off, and a stop": {v1alpha1.PhaseRestoring, true, 1},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 5, func(w *world) {
				w.password()
				w.pod("db-0", "n2")
				r := &told{}
				a := w.start("a", func(c *fencing.Config) { c.Events = r })
				defer a.stop()
				wait(w.ctx, settled)
				w.cutOff("n1", true)
				w.ends("n1", c.phase)
				require.NoError(t,
					w.client.CoreV1().Secrets("fencing").Delete(w.ctx, "bmc", metav1.DeleteOptions{}))
				if c.stop {
					w.annotate("n1", v1alpha1.AnnotationStop, "restore")
				}
				w.cutOff("n2", true)
				w.ends("n1", v1alpha1.PhaseGivenUp)
				w.eventually(10*time.Minute, "the pod is released", func() bool { return len(w.pods("n2")) == 0 })
				assert.Equal(t, c.off, w.rack.Count("n1", "command", agent.ActionOff))
				assert.Zero(t, w.rack.Count("n1", "command", agent.ActionOn))
				if !c.stop {
					assert.Equal(t, 1, r.count("Warning GivenUp"), r.counts)
				}
			})
		})
	}
}

// The API server takes longer to refuse a Secret than a look at the node counts, as it does when it
// cannot decrypt it. The last known values are used.
func TestSecretsThatAreSlowlyRefused(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.password()
		w.pod("db-0", "n1")
		var broken atomic.Bool
		w.proxy = func(r *http.Request) *http.Response {
			if !broken.Load() || !strings.Contains(r.URL.Path, "/secrets/") {
				return nil
			}
			wait(r.Context(), 3*time.Second)
			return answer(http.StatusInternalServerError, "application/json",
				`{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"reason":"InternalError"}`)
		}
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		broken.Store(true)
		w.lose("n1")
		w.eventually(time.Minute, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
		w.ends("n1", v1alpha1.PhaseFinal)
		w.requireFencedOnce("n1")
	})
}
