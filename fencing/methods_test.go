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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// lookedAt counts the times that controllers read n1. Each takes a while, so that a fence that
// repeats itself for ever does not stop the time. Other requests go to others.
func (w *world) lookedAt(others func(*http.Request) *http.Response) *atomic.Int64 {
	looks := &atomic.Int64{}
	w.proxy = func(r *http.Request) *http.Response {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/nodes/n1") {
			time.Sleep(100 * time.Millisecond)
			looks.Add(1)
		}
		return others(r)
	}
	return looks
}

// evicts deletes pods at once that are to be evicted, and counts them.
func (w *world) evicts(evictions *atomic.Int64) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		path, ok := strings.CutSuffix(r.URL.Path, "/eviction")
		if !ok {
			return nil
		}
		evictions.Add(1)
		pod := path[strings.LastIndex(path, "/")+1:]
		assert.NoError(w.t, w.client.CoreV1().Pods("ns").Delete(w.ctx, pod, metav1.DeleteOptions{}))
		return answer(http.StatusCreated, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
	}
}

// underPressure loses n1 by a condition of its kubelet. When its machine is lost too, Kubernetes sets
// all conditions of the kubelet to Unknown, also the one that the fence began with.
func (w *world) underPressure() {
	w.t.Helper()
	w.setCondition("n1", corev1.NodeMemoryPressure, corev1.ConditionTrue)
	w.cutOff("n1", true)
	w.eventually(2*time.Minute, "n1 is not Ready", func() bool {
		for _, c := range w.node("n1").Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status != corev1.ConditionTrue
			}
		}
		return false
	})
	w.setCondition("n1", corev1.NodeMemoryPressure, corev1.ConditionUnknown)
}

// notReadyFor sets how long a node with a configuration of its own must fail.
func (w *world) notReadyFor(node, within string) {
	w.t.Helper()
	maps := w.client.CoreV1().ConfigMaps("fencing")
	m, err := maps.Get(w.ctx, "fence-config-node-"+node, metav1.GetOptions{})
	require.NoError(w.t, err)
	m.Data["config.properties"] = strings.Replace(m.Data["config.properties"], "not_ready_for=10s",
		"not_ready_for="+within, 1)
	_, err = maps.Update(w.ctx, m, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

func onPressure(c *fencing.Config) {
	c.Nodes.Triggers = []api.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}}
}

// A node is lost between its first condition and the isolation. Its pods are evicted, for what that
// is worth, and its fence goes on.
func TestMethodsOfANodeThatFailsForAnotherReasonByNow(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		w.wired("mark-unschedulable clean-pods", "n1-off n1-on", "mark-schedulable", "power_wait=20s\n")
		w.notReadyFor("n1", "60s")
		var evictions atomic.Int64
		looks := w.lookedAt(w.evicts(&evictions))
		w.pod("db-0", "n1")
		a := w.start("a", onPressure)
		defer a.stop()
		wait(w.ctx, settled)
		w.underPressure()
		looks.Store(0)
		w.eventually(10*time.Minute, "the machine is off", func() bool { return !w.rack.On("n1") })
		assert.EqualValues(t, 1, evictions.Load())
		assert.Less(t, looks.Load(), int64(200))
		w.cutOff("n1", false)
		w.ends("n1", v1alpha1.PhaseFinal)
		w.requireFencedOnce("n1")
	})
}

// The Node of a machine that does not come back is deleted, and the answer is lost, or it fails for
// another reason than the one that its fence began with. The fence ends, and others begin.
func TestDeletedNodeKeepsNoOtherNodeWaiting(t *testing.T) {
	deleted := func(w *world) {
		assert.NoError(w.t, w.client.CoreV1().Nodes().Delete(w.ctx, "n1", metav1.DeleteOptions{}))
	}
	for name, c := range variants(map[string]struct {
		lose   func(*world)
		delete func(*world) *http.Response
	}{
		"the answer is lost": {
			func(w *world) { w.cutOff("n1", true) },
			func(w *world) *http.Response {
				deleted(w)
				return status(http.StatusGatewayTimeout, "Timeout", "request did not complete")
			},
		},
		"it fails for another reason": {(*world).underPressure, func(*world) *http.Response { return nil }},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 5, func(w *world) {
				w.wired("mark-unschedulable", "n1-off delete-node", "", "power_wait=20s\npower_on=never\n")
				w.notReadyFor("n1", "60s")
				looks := w.lookedAt(func(r *http.Request) *http.Response {
					if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/nodes/n1") {
						return c.delete(w)
					}
					return nil
				})
				w.pod("db-0", "n1")
				w.pod("db-1", "n2")
				a := w.start("a", onPressure)
				defer a.stop()
				wait(w.ctx, settled)
				c.lose(w)
				w.eventually(10*time.Minute, "the pod of n1 is released", func() bool { return len(w.pods("n1")) == 0 })
				looks.Store(0)
				w.ends("n1", v1alpha1.PhaseFinal)
				assert.Less(t, looks.Load(), int64(60))
				_, err := w.client.CoreV1().Nodes().Get(w.ctx, "n1", metav1.GetOptions{})
				assert.True(t, apierrors.IsNotFound(err))
				w.lose("n2")
				w.ends("n2", v1alpha1.PhaseFinal)
				assert.Empty(t, w.pods("n2"))
			})
		})
	}
}

// The limit of deletions is not for evictions, which disruption budgets limit.
func TestEvictionsDoNotCountAsDeletions(t *testing.T) {
	for _, method := range []string{"clean-pods", "detach-volumes"} {
		t.Run(method, func(t *testing.T) {
			inWorld(t, 5, func(w *world) {
				w.wired("mark-unschedulable "+method, "n1-off n1-on", "mark-schedulable", "power_wait=1m\n")
				var evictions atomic.Int64
				w.proxy = w.evicts(&evictions)
				for _, pod := range []string{"db-0", "db-1", "db-2"} {
					w.pod(pod, "n1")
				}
				a := w.start("a", func(c *fencing.Config) {
					c.Limits.PodsPerMinute = 10
					c.Nodes.Triggers = []api.NodeCondition{{Type: "Corrupt", Status: corev1.ConditionTrue}}
				})
				defer a.stop()
				wait(w.ctx, settled)
				w.setCondition("n1", "Corrupt", corev1.ConditionTrue)
				w.ends("n1", v1alpha1.PhaseIsolated)
				assert.EqualValues(t, 3, evictions.Load())
				assert.Empty(t, w.pods("n1"))
			})
		})
	}
}
