package fencing_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// gazette keeps the Events that are about the namespace of the configuration.
type gazette struct {
	mu   sync.Mutex
	said []string
}

func (g *gazette) Eventf(regarding, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	n, ok := regarding.(*corev1.Namespace)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.said = append(g.said, fmt.Sprintf("%s %s/%s: %s %s %s: %s",
		n.Kind, n.Namespace, n.Name, eventType, reason, action, fmt.Sprintf(note, args...)))
}

// take returns what was said since it was asked last.
func (g *gazette) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	said := g.said
	g.said = nil
	return said
}

// change writes one key of a ConfigMap.
func (w *world) change(configMap, key, value string) {
	w.t.Helper()
	_, err := w.client.CoreV1().ConfigMaps("fencing").Patch(w.ctx, configMap, types.MergePatchType,
		fmt.Appendf(nil, `{"data":{%q:%q}}`, key, value), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

// template replaces that of all devices.
func (w *world) template(text string) {
	w.t.Helper()
	w.change("fence-method-template-rack", "template.properties", text)
}

// The configuration of all nodes is spoiled at once: by the template that they share, by the object
// of their type, or because somebody has deleted everything. People learn it within seconds and
// again and again, and a node that is lost meanwhile is fenced when it is mended.
func TestConfigurationThatIsUnusableAsAWhole(t *testing.T) {
	const template, object = "fence-method-template-rack", "fence-config-type-worker"
	for name, c := range variants(map[string]struct {
		spoil, mend func(w *world)
		says        string
	}{
		"the template": {
			func(w *world) { w.change(template, "template.properties", "agent_name=fence_nobody\nip=rack\n") },
			func(w *world) { w.change(template, "template.properties", "agent_name=fence_rack\nip=rack\n") },
			"fence_nobody",
		},
		"the object of the type": {
			func(w *world) { w.change(object, "config.properties", "rubbish") },
			func(w *world) { w.change(object, "config.properties", settings) },
			"line must be key=value",
		},
		"nothing is left": {
			func(w *world) {
				require.NoError(w.t,
					w.client.CoreV1().ConfigMaps("fencing").Delete(w.ctx, object, metav1.DeleteOptions{}))
			},
			func(w *world) {
				w.configure(object, map[string]string{
					"config.properties":     settings,
					"fence-method-plug-off": "template=fence-method-template-rack\nplug={{.NodeName}}\naction=off\n",
					"fence-method-plug-on":  "template=fence-method-template-rack\nplug={{.NodeName}}\naction=on\n",
				})
			},
			"fence-method-template-cloud",
		},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 4, func(w *world) {
				g := &gazette{}
				var mu sync.Mutex
				var told []error
				core, logs := observer.New(zapcore.ErrorLevel)
				a := w.start("a", func(config *fencing.Config) {
					config.Events, config.Logger = g, zap.New(core)
					config.Hooks.OnConfiguration = func(err error) {
						mu.Lock()
						defer mu.Unlock()
						told = append(told, err)
					}
				})
				taken := func() []error {
					mu.Lock()
					defer mu.Unlock()
					said := told
					told = nil
					return said
				}
				wait(w.ctx, settled)
				assert.Empty(t, g.take(), "that it can be used is no news")
				assert.Equal(t, []error{nil}, taken())
				w.pod("db-0", "n1")

				c.spoil(w)
				took := w.eventually(time.Minute, "nodes say that they could not be fenced", func() bool {
					return w.fenceReady("n1").Status == corev1.ConditionFalse &&
						w.fenceReady("n4").Status == corev1.ConditionFalse
				})
				assert.Less(t, took, 10*time.Second)
				assert.Contains(t, w.fenceReady("n1").Message, c.says)
				said := g.take()
				require.Len(t, said, 1)
				assert.Contains(t, said[0], "Namespace fencing/fencing: Warning ConfigurationUnusable Configure: no "+
					"node can be fenced")
				assert.Contains(t, said[0], c.says)
				require.Equal(t, 1, logs.FilterMessageSnippet("no node has a usable configuration").Len())
				errs := taken()
				require.Len(t, errs, 1)
				require.ErrorContains(t, errs[0], c.says)

				w.cutOff("n1", true)
				wait(w.ctx, 35*time.Minute)
				assert.Len(t, g.take(), 1, "it is said again as long as it is so")
				assert.Equal(t, 1, logs.Len(), logs.All())
				assert.Empty(t, taken())
				hold := w.fence("n1").Status.Hold
				require.NotNil(t, hold)
				assert.Equal(t, policy.ReasonNotConfigured, hold.Reason)
				w.untouched("n1")

				c.mend(w)
				w.eventually(time.Minute, "nodes say that they could be fenced", func() bool {
					return w.fenceReady("n2").Status == corev1.ConditionTrue &&
						w.fenceReady("n4").Status == corev1.ConditionTrue
				})
				said = g.take()
				require.Len(t, said, 1)
				assert.Contains(t, said[0], "Normal ConfigurationUsable")
				assert.Equal(t, []error{nil}, taken())
				w.eventually(10*time.Minute, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
				w.cutOff("n1", false)
				w.ends("n1", v1alpha1.PhaseFinal)

				c.spoil(w)
				wait(w.ctx, 10*time.Second)
				require.Len(t, taken(), 1)
				a.stop()
				assert.Equal(t, []error{nil}, taken(), "who does not lead does not know")
			})
		})
	}
}

// As long as one node has a configuration that can be used, the others have a flaw of their own.
func TestConfigurationThatIsUnusableForSome(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		g := &gazette{}
		w.odd("fence_rack", "")
		a := w.start("a", func(config *fencing.Config) { config.Events = g })
		defer a.stop()
		wait(w.ctx, settled)
		w.change("fence-config-type-worker", "config.properties", "rubbish")
		wait(w.ctx, 10*time.Second)
		assert.Equal(t, corev1.ConditionTrue, w.fenceReady("n1").Status)
		assert.Equal(t, corev1.ConditionFalse, w.fenceReady("n2").Status)
		assert.Empty(t, g.take())
	})
}

// Of many flaws a few are named.
func TestManyFlawsOfTheWholeConfiguration(t *testing.T) {
	inWorld(t, 6, func(w *world) {
		g := &gazette{}
		for i := range 6 {
			w.configure(fmt.Sprintf("fence-config-node-n%d", i+1), map[string]string{"config.properties": "rubbish"})
		}
		a := w.start("a", func(config *fencing.Config) { config.Events = g })
		defer a.stop()
		wait(w.ctx, settled)
		said := g.take()
		require.Len(t, said, 1)
		assert.Contains(t, said[0], "fence-config-node-n3")
		assert.NotContains(t, said[0], "fence-config-node-n4")
		assert.Contains(t, said[0], "and 3 more")
	})
}

// Nodes that no ConfigMap is about are left alone, if that is asked for: they are no alarm, and
// count nowhere. That none is left is one.
func TestNodesWithoutConfigurationAreLeftAlone(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		g := &gazette{}
		for _, node := range []string{"n3", "n4", "n5"} {
			_, err := w.client.CoreV1().Nodes().Patch(w.ctx, node, types.MergePatchType,
				[]byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{})
			require.NoError(t, err)
		}
		w.pod("db-0", "n1")
		a := w.start("a", func(c *fencing.Config) { c.OnlyConfigured, c.Events = true, g })
		defer a.stop()
		wait(w.ctx, settled)
		assert.Equal(t, corev1.ConditionTrue, w.fenceReady("n1").Status)
		assert.Empty(t, w.fenceReady("n3"))
		assessed, err := a.Assess(w.ctx)
		require.NoError(t, err)
		assert.Len(t, assessed, 2)

		w.cutOff("n3", true)
		wait(w.ctx, 10*time.Minute)
		assert.Nil(t, w.fence("n3"))
		w.cutOff("n4", true)
		w.cutOff("n5", true)
		wait(w.ctx, 2*time.Minute)
		w.lose("n1")
		w.eventually(10*time.Minute, "the pod is released, as one of two is no storm",
			func() bool { return len(w.pods("n1")) == 0 })
		w.ends("n1", v1alpha1.PhaseFinal)

		// What has begun goes on, even if its ConfigMap is deleted; but that no node has one is not
		// silent.
		w.pod("db-1", "n1")
		w.cutOff("n1", true)
		w.eventually(5*time.Minute, "its power is off",
			func() bool { return w.rack.Count("n1", "power", agent.ActionOff) == 2 })
		require.NoError(t,
			w.client.CoreV1().ConfigMaps("fencing").Delete(w.ctx, "fence-config-type-worker", metav1.DeleteOptions{}))
		w.eventually(2*time.Minute, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
		wait(w.ctx, 10*time.Second)
		said := g.take()
		require.Len(t, said, 1)
		assert.Contains(t, said[0], "there is no ConfigMap for any node")
	})
}

// Without that they are said not to be fenceable, and so is what their fences wait for.
func TestNodesWithoutConfigurationAreHeld(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		_, err := w.client.CoreV1().Nodes().Patch(w.ctx, "n1", types.MergePatchType,
			[]byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		assert.Equal(t, corev1.ConditionFalse, w.fenceReady("n1").Status)
		w.cutOff("n1", true)
		wait(w.ctx, 10*time.Minute)
		require.NotNil(t, w.fence("n1").Status.Hold)
		assert.Equal(t, policy.ReasonNotConfigured, w.fence("n1").Status.Hold.Reason)
	})
}

// A ConfigMap pauses all fencing, whichever replica leads, and says why.
func TestConfigMapPausesEverything(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.configure("fence-paused", map[string]string{"reason": "the switch is replaced"})
		w.pod("db-0", "n1")
		a := w.start("a", nil)
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		wait(w.ctx, 10*time.Minute)
		hold := w.fence("n1").Status.Hold
		require.NotNil(t, hold)
		assert.Equal(t, policy.ReasonPaused, hold.Reason)
		assert.Contains(t, hold.Message, "the switch is replaced")
		a.stop()
		a = w.start("b", nil)
		defer a.stop()
		wait(w.ctx, 10*time.Minute)
		w.untouched("n1")
		require.NoError(t,
			w.client.CoreV1().ConfigMaps("fencing").Delete(w.ctx, "fence-paused", metav1.DeleteOptions{}))
		w.eventually(5*time.Minute, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
	})
}

// TestNotReadyForOfTheLimits has the limit say how long a node must fail, unless its ConfigMap does.
func TestNotReadyForOfTheLimits(t *testing.T) {
	const limit = 20 * time.Minute
	for name, c := range variants(map[string]struct {
		key      string
		min, max time.Duration
	}{
		"without the key":     {"", limit, limit + 3*time.Minute},
		"with a shorter wait": {"not_ready_for=10s\n", 0, 3 * time.Minute},
		"with a longer wait":  {"not_ready_for=40m\n", 2 * limit, 2*limit + 3*time.Minute},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.configure("fence-config-node-n1", map[string]string{
					"config.properties": "node_name=n1\nisolation=mark-unschedulable\n" +
						"power_management=plug-off plug-on\nrecovery=mark-schedulable\npower_wait=20s\n" + c.key,
					"fence-method-plug-off": "template=fence-method-template-rack\nplug={{.NodeName}}\naction=off\n",
					"fence-method-plug-on":  "template=fence-method-template-rack\nplug={{.NodeName}}\naction=on\n",
				})
				a := w.start("a", func(c *fencing.Config) { c.Limits.NotReadyFor, c.Logger = limit, nil })
				defer a.stop()
				wait(w.ctx, settled)
				w.cutOff("n1", true)
				took := w.eventually(time.Hour, "its machine is off", func() bool { return !w.rack.On("n1") })
				assert.GreaterOrEqual(t, took, c.min)
				assert.LessOrEqual(t, took, c.max)
			})
		})
	}
}

func TestAConfigurationOfNoNodeIsReported(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		core, logs := observer.New(zapcore.WarnLevel)
		w.start("a", func(config *fencing.Config) { config.Logger = zap.New(core) })
		wait(w.ctx, settled)
		assert.Zero(t, logs.Len(), logs.All())

		w.configure("fence-config-node-n11", map[string]string{"config.properties": settings}) // n1, misspelt
		wait(w.ctx, time.Hour)
		said := logs.TakeAll()
		require.Len(t, said, 1, "once")
		assert.Equal(t, "a configuration is that of no node", said[0].Message)
		assert.Equal(t, []any{"fence-config-node-n11: object is the configuration of no node"},
			said[0].ContextMap()["problems"])
	})
}
