package fencing_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// status is the answer of an API server.
func status(code int, reason, message string) *http.Response {
	return answer(code, "application/json", fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure",`+
		`"reason":%q,"code":%d,"message":%q}`, reason, code, message))
}

// A policy refuses the taint that releases the workloads of one node. Its record says so, the API server is
// asked rarely, and other nodes are fenced. When that is over, the fence goes on.
func TestReleaseThatIsRefusedStopsNoOtherFence(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		var over atomic.Bool
		var refused atomic.Int64
		w.proxy = func(r *http.Request) *http.Response {
			if over.Load() || r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/nodes/n1") {
				return nil
			}
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if !bytes.Contains(body, []byte("out-of-service")) {
				return nil
			}
			refused.Add(1)
			return status(http.StatusForbidden, "Forbidden", `admission webhook "w" denied the request: no`)
		}
		w.pod("db-0", "n1")
		w.pod("db-1", "n2")
		r := &told{}
		core, logs := observer.New(zap.WarnLevel)
		a := w.start("a", func(c *fencing.Config) { c.Events, c.Logger = r, zap.New(core) })
		defer a.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		wait(w.ctx, 5*time.Minute)
		hold := w.fence("n1").Status.Hold
		require.NotNil(t, hold)
		assert.Equal(t, "StepFails", hold.Reason)
		assert.Contains(t, hold.Message, `webhook "w" denied`)
		assert.Positive(t, r.count("Warning StepFails"))
		w.lose("n2")
		w.ends("n2", v1alpha1.PhaseFinal)
		assert.Less(t, refused.Load(), int64(600), "one in 2 s")
		assert.Less(t, logs.Len(), 30)
		over.Store(true)
		w.cutOff("n1", false)
		w.ends("n1", v1alpha1.PhaseFinal)
		w.requireFencedOnce("n1")
	})
}

// A policy refuses writes of one record. It takes no place, and is tried rarely. That is in the
// record if it may say so, and otherwise in an Event. When that is over, the fence goes on.
func TestRecordThatIsRefusedStopsNoOtherFence(t *testing.T) {
	for name, c := range variants(map[string]struct {
		writes  []string
		written bool
	}{
		"the next phase":               {[]string{`"Powering"`}, true},
		"the next phase, and any hold": {[]string{`"Powering"`, `"hold"`}, false},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 5, func(w *world) {
				breaches := w.referee()
				var over atomic.Bool
				var refused atomic.Int64
				w.proxy = func(r *http.Request) *http.Response {
					if over.Load() || r.Method != http.MethodPut ||
						!strings.HasSuffix(r.URL.Path, "/node-fence-n1/status") {
						return nil
					}
					body, _ := io.ReadAll(r.Body)
					r.Body = io.NopCloser(bytes.NewReader(body))
					if !slices.ContainsFunc(c.writes, func(s string) bool { return bytes.Contains(body, []byte(s)) }) {
						return nil
					}
					refused.Add(1)
					return status(http.StatusForbidden, "Forbidden", `admission webhook "w" denied the request: no`)
				}
				w.pod("db-0", "n1")
				w.pod("db-1", "n2")
				r := &told{}
				var blocked atomic.Int64
				core, logs := observer.New(zap.WarnLevel)
				a := w.start("a", func(c *fencing.Config) {
					c.Events, c.Logger = r, zap.New(core)
					c.Hooks.OnBlocked = func(node string, hold v1alpha1.Hold) {
						if node == "n1" && hold.Reason == "StepFails" {
							blocked.Add(1)
						}
					}
				})
				defer a.stop()
				wait(w.ctx, settled)
				w.cutOff("n1", true)
				wait(w.ctx, 5*time.Minute)
				hold := w.fence("n1").Status.Hold
				assert.Equal(t, c.written, hold != nil && hold.Reason == "StepFails", hold)
				assert.Equal(t, 1, r.count("Warning StepFails"))
				assert.EqualValues(t, 1, blocked.Load())
				w.lose("n2")
				w.ends("n2", v1alpha1.PhaseFinal)
				assert.Less(t, refused.Load(), int64(400), "one in 2 s")
				assert.Less(t, logs.Len(), 30)
				over.Store(true)
				w.ends("n1", v1alpha1.PhaseBooting)
				w.cutOff("n1", false)
				w.ends("n1", v1alpha1.PhaseFinal)
				w.requireFencedOnce("n1")
				assert.Empty(t, breaches())
			})
		})
	}
}

// A webhook for evictions is gone. After a while that is a failed method, as if it refused.
func TestMethodWhoseWebhookIsGoneFails(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		w.wired("mark-unschedulable clean-pods", "n1-off n1-on", "mark-schedulable", "power_wait=20s\n")
		w.proxy = func(r *http.Request) *http.Response {
			if strings.HasSuffix(r.URL.Path, "/eviction") {
				return status(http.StatusInternalServerError, "InternalError",
					`failed calling webhook "w": connection refused`)
			}
			return nil
		}
		w.pod("db-0", "n1")
		r := &told{}
		a := w.start("a", func(c *fencing.Config) { c.Events = r })
		defer a.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		wait(w.ctx, 20*time.Minute)
		assert.Positive(t, r.count("Warning MethodFailed"))
		assert.Positive(t, r.count("Warning StepFails")+r.count("Warning GivenUp"))
	})
}

// unending has an agent for n1 that cannot be ended.
type unending struct{ agents }

func (e unending) Switch(ctx context.Context, target agent.Target, command agent.Command) error {
	err := e.agents.Switch(ctx, target, command)
	if target.Node == "n1" {
		err = errors.Join(err, agent.ErrAlive)
	}
	return err
}

// An agent that cannot be ended blocks the fence of its node, and says so again and again.
func TestAgentThatCannotBeEndedBlocksItsNodeOnly(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		w.pod("db-0", "n1")
		w.pod("db-1", "n2")
		r := &told{}
		a := w.start("a", func(c *fencing.Config) { c.Events, c.Agents = r, unending{agents{w.rack}} })
		defer a.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		wait(w.ctx, 10*time.Minute)
		require.NotNil(t, w.fence("n1").Status.Hold)
		assert.Equal(t, "AgentAlive", w.fence("n1").Status.Hold.Reason)
		w.lose("n2")
		w.ends("n2", v1alpha1.PhaseFinal)
		wait(w.ctx, 3*time.Hour)
		assert.GreaterOrEqual(t, r.count("Warning AgentAlive"), 6)
		assert.NotEmpty(t, w.pods("n1"))
	})
}

// An agent of one node does not answer, and nodes come and go all the time. Others are fenced.
func TestSilentAgentDelaysNoOtherNodeWhileNodesComeAndGo(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		w.odd("fence_odd", "")
		w.pod("db-0", "n2")
		silent := &atomic.Bool{}
		silent.Store(true)
		a := w.start("a", func(c *fencing.Config) { c.Agents = flawed{agents{w.rack}, silent, time.Hour} })
		defer a.stop()
		wait(w.ctx, settled+2*time.Minute)
		w.cutOff("n2", true)
		for i := 0; i < 15 && len(w.pods("n2")) > 0; i++ {
			wait(w.ctx, 20*time.Second)
			_, err := w.client.CoreV1().Nodes().Create(w.ctx,
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("new-", i)}}, metav1.CreateOptions{})
			require.NoError(t, err)
			_ = w.client.CoreV1().Nodes().Delete(w.ctx, fmt.Sprint("new-", i-1), metav1.DeleteOptions{})
		}
		assert.Empty(t, w.pods("n2"), "released within 5 minutes")
	})
}
