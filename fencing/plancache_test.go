package fencing_test

import (
	"context"
	"errors"
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
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// flawed are agents; one of them does not say what parameters it has.
type flawed struct {
	agents
	silent *atomic.Bool
	takes  time.Duration
}

func (f flawed) Metadata(ctx context.Context, name string) (agent.Metadata, error) {
	if name == "fence_odd" {
		if f.silent.Load() {
			wait(ctx, f.takes)
			return agent.Metadata{}, errors.New("Segmentation fault")
		}
		name = "fence_rack"
	}
	return f.agents.Metadata(ctx, name)
}

// odd gives n1 a configuration of its own, with an agent or a Secret that the others do not need.
func (w *world) odd(agent, parameter string) {
	method := "agent=" + agent + "\nip=rack\nplug=n1\n" + parameter
	w.configure("fence-config-node-n1", map[string]string{
		"config.properties":     strings.ReplaceAll(settings, "{{.NodeName}}", "n1"),
		"fence-method-plug-off": method + "action=off\n",
		"fence-method-plug-on":  method + "action=on\n",
	})
}

// The agent of one node is broken, or its Secret must not be read. The other nodes are fenced. That
// node's trouble is reported while it works and when it is lost.
func TestOneBadConfigurationConcernsOneNode(t *testing.T) {
	for name, c := range variants(map[string]struct {
		begin  func(w *world)
		says   string
		faults func(*apisim.Client)
	}{
		"an agent whose metadata fails": {
			func(w *world) { w.odd("fence_odd", "") }, "Segmentation fault", nil,
		},
		"a Secret that may not be read": {
			func(w *world) { w.odd("fence_rack", "password.secret=forbidden/password\n") }, "secret must be readable",
			func(c *apisim.Client) {
				c.Inject(apisim.Faults{Refuse: func(r *http.Request) bool {
					return strings.HasSuffix(r.URL.Path, "/secrets/forbidden")
				}})
			},
		},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 4, func(w *world) {
				c.begin(w)
				w.pod("db-0", "n2")
				r := &told{}
				silent := &atomic.Bool{}
				silent.Store(true)
				change := func(config *fencing.Config) {
					config.Events, config.Agents = r, flawed{agents{w.rack}, silent, 0}
				}
				var faults []func(*apisim.Client)
				if c.faults != nil {
					faults = append(faults, c.faults)
				}
				a := w.start("a", change, faults...)
				defer a.stop()
				wait(w.ctx, settled)
				assert.Equal(t, corev1.ConditionTrue, w.fenceReady("n2").Status)
				assert.Equal(t, corev1.ConditionFalse, w.fenceReady("n1").Status)
				assert.Contains(t, w.fenceReady("n1").Message, c.says)
				require.Equal(t, 1, r.count("Warning NotFenceable"), r.counts)

				w.lose("n2")
				w.eventually(10*time.Minute, "the pod is released", func() bool { return len(w.pods("n2")) == 0 })
				w.ends("n2", "Final")

				w.cutOff("n1", true)
				wait(w.ctx, 10*time.Minute)
				hold := w.fence("n1").Status.Hold
				require.NotNil(t, hold)
				assert.Equal(t, policy.ReasonNotConfigured, hold.Reason)
				assert.Contains(t, hold.Message, c.says)
				wait(w.ctx, 35*time.Minute)
				assert.GreaterOrEqual(t, r.count("Warning NotConfigured"), 2, "and again")
				w.untouched("n1")
			})
		})
	}
}

// What was resolved stays good while an agent that nothing has changed about does not answer, also
// for who looks at the node the moment it is lost.
func TestConfigurationThatWasGoodStaysSo(t *testing.T) {
	for name, takes := range variants(map[string]time.Duration{"at once": 0, "in the end": time.Hour}) {
		t.Run("an agent fails "+name, func(t *testing.T) {
			inWorld(t, 4, func(w *world) {
				w.odd("fence_odd", "")
				// so that all is looked at again and again
				w.configure("fence-config-node-n4", map[string]string{"config.properties": "rubbish"})
				w.pod("db-0", "n1")
				silent := &atomic.Bool{}
				a := w.start("a", func(config *fencing.Config) {
					config.Agents = flawed{agents{w.rack}, silent, takes}
				})
				defer a.stop()
				wait(w.ctx, settled)
				require.Equal(t, corev1.ConditionTrue, w.fenceReady("n1").Status)
				silent.Store(true)
				wait(w.ctx, 30*time.Minute)
				assert.Equal(t, corev1.ConditionTrue, w.fenceReady("n1").Status)
				// Another node comes meanwhile.
				_, err := w.client.CoreV1().Nodes().Create(w.ctx,
					&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
				require.NoError(t, err)
				w.lose("n1")
				w.eventually(5*time.Minute, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
			})
		})
	}
}
