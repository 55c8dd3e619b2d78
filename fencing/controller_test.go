package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// settled is how long a controller watches before a test begins.
const settled = time.Minute

// lose cuts a node off, and returns when its machine has lost its power. It is reachable again when
// it has rebooted.
func (w *world) lose(node string) {
	w.t.Helper()
	w.cutOff(node, true)
	w.eventually(10*time.Minute, node+" is off", func() bool { return !w.rack.On(node) })
	w.cutOff(node, false)
}

func (w *world) ends(node string, phase v1alpha1.Phase) {
	w.t.Helper()
	w.eventually(30*time.Minute, fmt.Sprintf("the fence of %s is %s", node, phase),
		func() bool { return w.phase(node) == phase })
}

// untouched says that nothing was done to a machine.
func (w *world) untouched(node string) {
	w.t.Helper()
	for _, e := range w.rack.Events() {
		require.NotEqual(w.t, node, e.Plug, "%+v", e)
	}
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	n, err := w.client.CoreV1().Nodes().Get(w.ctx, name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return n
}

// annotate does what an admin does.
func (w *world) annotate(node, key, value string) {
	w.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	_, err := w.fences.Patch(w.ctx, v1alpha1.Name(node), types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(w.t, err)
}

func TestLostNodeIsFencedAndComesBack(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		breaches := w.referee()
		w.pod("db-0", "n1")
		w.pod("other", "n2")
		c := w.start("a", nil)
		defer c.stop()
		wait(w.ctx, settled)
		w.lose("n1")
		w.eventually(30*time.Second, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
		w.ends("n1", v1alpha1.PhaseFinal)
		w.requireFencedOnce("n1")
		assert.Equal(t, []string{"other"}, w.pods("n2"))
		assert.Empty(t, breaches())
		w.untouched("n2")
	})
}

func TestNodeThatReturnsInTimeKeepsItsPower(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.pod("db-0", "n1")
		c := w.start("a", nil)
		defer c.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		w.eventually(5*time.Minute, "the node is isolated",
			func() bool { return w.phase("n1") == v1alpha1.PhaseIsolated })
		require.Len(t, w.node("n1").Spec.Taints, 1)
		w.cutOff("n1", false)
		w.ends("n1", v1alpha1.PhaseFinal)
		w.untouched("n1")
		assert.Empty(t, w.node("n1").Spec.Taints)
		assert.Equal(t, []string{"db-0"}, w.pods("n1"))
	})
}

func TestNodeIsFencedAgain(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		c := w.start("a", nil)
		defer c.stop()
		wait(w.ctx, settled)
		for incident := range int64(2) {
			w.lose("n1")
			w.ends("n1", v1alpha1.PhaseFinal)
			wait(w.ctx, 2*time.Minute)
			f := w.fence("n1")
			assert.Equal(t, incident+1, f.Status.Incident)
			assert.Len(t, f.Status.Problems.Starts, int(incident)+1)
		}
		assert.Equal(t, 2, w.rack.Count("n1", "power", agent.ActionOff))
	})
}

func TestControllerWithoutLeadershipDoesNothing(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		c := w.start("a", nil)
		defer c.stop()
		c.reign.ended.Store(true)
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		wait(w.ctx, 15*time.Minute)
		w.untouched("n1")
		assert.Empty(t, w.node("n1").Spec.Taints)
	})
}

func TestControllerRunsOnce(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		c := w.start("a", nil)
		wait(w.ctx, settled)
		assert.ErrorIs(t, c.Run(w.ctx), fencing.ErrBusy)
		c.stop()
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		assert.NoError(t, c.Run(ctx))
		assert.Error(t, ctx.Err(), "it has not run again")
	})
}

func TestControllerThatIsCutOffFencesNoNode(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		c := w.start("a", nil)
		defer c.stop()
		wait(w.ctx, settled)
		c.client.Inject(apisim.Faults{Refuse: apisim.Always})
		c.reign.ended.Store(true) // no lease is renewed then
		w.cutOff("n1", true)
		wait(w.ctx, 15*time.Minute)
		w.untouched("n1")
		c.client.Inject(apisim.Faults{})
		c.reign.ended.Store(false)
		w.eventually(10*time.Minute, "n1 is off", func() bool { return !w.rack.On("n1") })
	})
}

func TestOwnHostIsLeftToAnother(t *testing.T) {
	for name, fail := range variants(map[string]func(w *world){
		"it is lost":                func(w *world) { w.cutOff("n1", true) },
		"a condition says it fails": func(w *world) { w.setCondition("n1", "Corrupt", corev1.ConditionTrue) },
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				begin := func(name, node string) *replica {
					return w.start(name, func(c *fencing.Config) { runsOn(c, node) })
				}
				c := begin("a", "n1")
				wait(w.ctx, settled)
				fail(w)
				w.eventually(2*time.Minute, "the leader on n1 leaves", func() bool { return len(c.result) > 0 })
				assert.ErrorIs(t, <-c.result, fencing.ErrOwnHost)
				w.untouched("n1")
				other := begin("b", "n2")
				defer other.stop()
				w.eventually(10*time.Minute, "n1 is off", func() bool { return !w.rack.On("n1") })
				w.cutOff("n1", false)
				w.setCondition("n1", "Corrupt", corev1.ConditionFalse)
				w.ends("n1", v1alpha1.PhaseFinal)
			})
		})
	}
}

// runsOn has a controller run on a node, fence Ready nodes, and be quick about it.
func runsOn(c *fencing.Config, node string) {
	c.OutsideCluster, c.Node = false, node
	c.Nodes.Triggers = []api.NodeCondition{{Type: "Corrupt", Status: corev1.ConditionTrue}}
	c.Limits.FenceReadyNodes = []string{"Corrupt"}
	c.Limits.CoolDown = 10 * time.Second
}

// The only replica is on a node that fails and is Ready: nothing else fences its node, and it still
// fences others.
func TestOnlyReplicaOnAFailingNodeFencesOthers(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		w.pod("db-0", "n2")
		w.setCondition("n1", "Corrupt", corev1.ConditionTrue)
		start := func() *replica {
			return w.start("a", func(c *fencing.Config) {
				runsOn(c, "n1")
				c.Limits.CoolDown = 0 // the default
			})
		}
		c := start()
		wait(w.ctx, settled)
		w.cutOff("n2", true)
		for began := time.Now(); len(w.pods("n2")) > 0; wait(w.ctx, poll) {
			require.Less(t, time.Since(began), 30*time.Minute)
			select {
			case err := <-c.result:
				assert.ErrorIs(t, err, fencing.ErrOwnHost)
				c = start()
			default:
			}
		}
		c.stop()
		w.untouched("n1")
	})
}

var notPets, _ = labels.Parse("kind!=pet")

func TestExcludedAndUnselectedNodesAreLeftAlone(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		for node, label := range map[string]string{
			"n1": `"fencing.bellwether.dev/exclude":"yes"`,
			"n2": `"kind":"pet"`,
		} {
			_, err := w.client.CoreV1().Nodes().Patch(w.ctx, node, types.MergePatchType,
				[]byte(`{"metadata":{"labels":{`+label+`}}}`), metav1.PatchOptions{})
			require.NoError(t, err)
		}
		c := w.start("a", func(c *fencing.Config) { c.Nodes.Selector = notPets })
		defer c.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		w.cutOff("n2", true)
		wait(w.ctx, 15*time.Minute)
		w.untouched("n1")
		w.untouched("n2")
		assert.Nil(t, w.fence("n1"))
		assert.Nil(t, w.fence("n2"))
	})
}

func TestTwoControllersAtOnce(t *testing.T) {
	for i := 0; i < 5; i += share {
		inWorld(t, 3, func(w *world) {
			breaches := w.referee()
			w.pod("db-0", "n1")
			a := w.start("a", nil)
			defer a.stop()
			wait(w.ctx, time.Duration(i)*137*time.Millisecond)
			b := w.start("b", nil)
			defer b.stop()
			wait(w.ctx, settled)
			w.lose("n1")
			w.ends("n1", v1alpha1.PhaseFinal)
			w.requireFencedOnce("n1")
			assert.Empty(t, breaches())
		})
	}
}

func TestOtherTriggers(t *testing.T) {
	for name, c := range variants(map[string]struct {
		ready []string // conditions for which Ready nodes lose their power
		off   bool
	}{
		"isolates a Ready node only":   {},
		"fences a Ready node if asked": {ready: []string{"Corrupt"}, off: true},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				a := w.start("a", func(config *fencing.Config) {
					config.Nodes.Triggers = []api.NodeCondition{{Type: "Corrupt", Status: corev1.ConditionTrue}}
					config.Limits.FenceReadyNodes = c.ready
				})
				defer a.stop()
				wait(w.ctx, settled)
				w.setCondition("n1", "Corrupt", corev1.ConditionTrue)
				if c.off {
					w.eventually(10*time.Minute, "n1 is off", func() bool { return !w.rack.On("n1") })
					w.setCondition("n1", "Corrupt", corev1.ConditionFalse)
				} else {
					w.ends("n1", v1alpha1.PhaseIsolated)
					wait(w.ctx, 15*time.Minute)
					w.untouched("n1")
					assert.Equal(t, "Corrupt", w.fence("n1").Status.Triggers[0].Type)
					w.setCondition("n1", "Corrupt", corev1.ConditionFalse)
				}
				w.ends("n1", v1alpha1.PhaseFinal)
				assert.Empty(t, w.node("n1").Spec.Taints)
			})
		})
	}
}

func TestLyingDevices(t *testing.T) {
	for name, c := range variants(map[string]struct {
		fault fencingtest.Fault
		ends  v1alpha1.Phase
		times int // power goes off
	}{
		"acknowledges and ignores":           {fencingtest.Fault{Ignore: true}, v1alpha1.PhaseGivenUp, 0},
		"ignores the first command":          {fencingtest.Fault{Ignore: true, Times: 3}, v1alpha1.PhaseFinal, 1},
		"fails and does it":                  {fencingtest.Fault{Fail: true}, v1alpha1.PhaseFinal, 1},
		"lands 20 s later":                   {fencingtest.Fault{Late: 20 * time.Second}, v1alpha1.PhaseFinal, 1},
		"cannot be read":                     {fencingtest.Fault{Unreadable: true}, v1alpha1.PhaseGivenUp, 1},
		"switches the plug of its neighbour": {fencingtest.Fault{Switches: "n3"}, v1alpha1.PhaseGivenUp, 0},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				breaches := w.referee()
				w.pod("db-0", "n1")
				a := w.start("a", nil)
				defer a.stop()
				wait(w.ctx, settled)
				w.cutOff("n1", true)
				w.eventually(5*time.Minute, "the node is isolated",
					func() bool { return w.phase("n1") == v1alpha1.PhaseIsolated })
				w.rack.Break("n1", c.fault)
				w.eventually(2*time.Hour, "the fence ends", func() bool {
					if !w.rack.On("n1") {
						w.cutOff("n1", false)
					}
					return w.phase("n1") == c.ends
				})
				assert.Empty(t, breaches())
				assert.Equal(t, c.times, w.rack.Count("n1", "power", agent.ActionOff))
				if c.ends == v1alpha1.PhaseGivenUp { // nothing is proved
					assert.Equal(t, []string{"db-0"}, w.pods("n1"))
				}
			})
		})
	}
}

// told counts what a controller tells people, by reason.
type told struct {
	mu     sync.Mutex
	counts map[string]int
}

func (r *told) Eventf(_, _ runtime.Object, eventType, reason, _, _ string, _ ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	r.counts[eventType+" "+reason]++
}

func (r *told) count(what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[what]
}

// Events are forgotten after an hour.
func TestAlarmsAreRepeated(t *testing.T) {
	for reason, begin := range variants(map[string]func(w *world){
		"GivenUp": func(w *world) {
			w.rack.Break("n1", fencingtest.Fault{Unreadable: true})
			w.ends("n1", v1alpha1.PhaseGivenUp)
		},
		"NotConfigured": func(w *world) {
			_, err := w.client.CoreV1().ConfigMaps("fencing").Patch(w.ctx, "fence-config-type-worker",
				types.MergePatchType, []byte(`{"data":{"fence-method-plug-off":null}}`), metav1.PatchOptions{})
			require.NoError(w.t, err)
			w.eventually(5*time.Minute, "the fence is held",
				func() bool { f := w.fence("n1"); return f != nil && f.Status.Hold != nil })
		},
	}) {
		t.Run(reason, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				r := &told{}
				a := w.start("a", func(c *fencing.Config) { c.Events = r })
				defer a.stop()
				wait(w.ctx, settled)
				w.cutOff("n1", true)
				begin(w)
				wait(w.ctx, 10*time.Minute)
				require.Equal(t, 1, r.count("Warning "+reason), r.counts)
				wait(w.ctx, 60*time.Minute)
				assert.Equal(t, 3, r.count("Warning "+reason), r.counts)
			})
		})
	}
}

// A node that is lost for the third time within an hour is not the one that has to be rebooted.
func TestNodeThatIsLostAgainAndAgain(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		r := &told{}
		a := w.start("a", func(c *fencing.Config) { c.Events = r })
		defer a.stop()
		wait(w.ctx, settled)
		for range 3 {
			w.lose("n1")
			w.ends("n1", v1alpha1.PhaseFinal)
		}
		require.Zero(t, r.count("Warning Repeats"))
		w.cutOff("n1", true)
		w.eventually(5*time.Minute, "the fence is held",
			func() bool { f := w.fence("n1"); return f.Status.Hold != nil })
		assert.Equal(t, policy.ReasonRepeats, w.fence("n1").Status.Hold.Reason)
		wait(w.ctx, 70*time.Minute) // which is longer than what counts as again: only a human changes that
		assert.Equal(t, 3, w.rack.Count("n1", "power", agent.ActionOff))
		assert.GreaterOrEqual(t, r.count("Warning Repeats"), 3)
		w.annotate("n1", v1alpha1.AnnotationRestart, strconv.FormatInt(w.fence("n1").Status.Incident, 10))
		w.eventually(10*time.Minute, "n1 is off", func() bool { return !w.rack.On("n1") })
	})
}

func TestAdminConfirms(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.pod("db-0", "n1")
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		w.rack.Break("n1", fencingtest.Fault{Unreadable: true})
		w.ends("n1", v1alpha1.PhaseGivenUp)
		assert.Equal(t, []string{"db-0"}, w.pods("n1"))
		w.annotate("n1", v1alpha1.AnnotationConfirmOff, "7") // of no incident
		wait(w.ctx, time.Minute)
		assert.Equal(t, []string{"db-0"}, w.pods("n1"))
		w.annotate("n1", v1alpha1.AnnotationConfirmOff, "1")
		w.eventually(time.Minute, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
	})
}

func TestUnconfiguredNodeIsHeld(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		_, err := w.client.CoreV1().ConfigMaps("fencing").Patch(w.ctx, "fence-config-type-worker", types.MergePatchType,
			[]byte(`{"data":{"fence-method-plug-off":"template=absent"}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		wait(w.ctx, 10*time.Minute)
		w.untouched("n1")
		f := w.fence("n1")
		require.NotNil(t, f.Status.Hold)
		assert.Equal(t, policy.ReasonNotConfigured, f.Status.Hold.Reason)
		assert.Contains(t, f.Status.Hold.Message, "absent")
	})
}

// Who counts fences by the hooks counts none any more when another process leads, or Run has failed.
func TestRecordsAreForgottenWhenRunEnds(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		var mu sync.Mutex
		known := map[string]v1alpha1.Phase{}
		phase := func(node string) v1alpha1.Phase {
			mu.Lock()
			defer mu.Unlock()
			return known[node]
		}
		remember := func(config *fencing.Config) {
			config.Hooks.OnRecord = func(fence *v1alpha1.NodeFence) {
				mu.Lock()
				defer mu.Unlock()
				known[fence.Node] = fence.Status.Phase
			}
			config.Hooks.OnForgotten = func(node string) {
				mu.Lock()
				defer mu.Unlock()
				delete(known, node)
			}
		}
		a := w.start("a", remember)
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		w.eventually(5*time.Minute, "the node is isolated",
			func() bool { return phase("n1") == v1alpha1.PhaseIsolated })
		a.stop()
		assert.Empty(t, known)

		b := w.start("b", remember)
		wait(w.ctx, poll)
		assert.NotEmpty(t, phase("n1"), "the next leader knows it from the start")
		b.stop()
		assert.Empty(t, known)
	})
}

// What would be ignored is refused: somebody relies on it.
func TestKdumpIsRefusedWithoutAPort(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		m, err := w.client.CoreV1().ConfigMaps("fencing").Get(w.ctx, "fence-config-type-worker", metav1.GetOptions{})
		require.NoError(t, err)
		m.Data["config.properties"] += "kdump=yes\n"
		_, err = w.client.CoreV1().ConfigMaps("fencing").Update(w.ctx, m, metav1.UpdateOptions{})
		require.NoError(t, err)
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		for _, c := range w.node("n1").Status.Conditions {
			if c.Type == api.DefaultFenceReadyCondition {
				assert.Equal(t, corev1.ConditionFalse, c.Status)
				assert.Contains(t, c.Message, "kdump")
			}
		}
		all, err := a.Assess(w.ctx)
		require.NoError(t, err)
		assert.ErrorContains(t, all[0].Err, "kdump: must be no")
		assert.Equal(t, "NotConfigured", readinessOf(all[0].Decision))
		w.cutOff("n1", true)
		wait(w.ctx, 10*time.Minute)
		w.untouched("n1")
		assert.Contains(t, w.fence("n1").Status.Hold.Message, "kdump")
	})
}

// readinessOf is the reason of the gate for configuration and devices.
func readinessOf(d api.Decision) string {
	for _, g := range d.Gates {
		if g.Gate == "Readiness" {
			return g.Reason
		}
	}
	return ""
}

func TestAssess(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		w.rack.Break("n2", fencingtest.Fault{Unreadable: true})
		w.cutOff("n1", true)
		w.eventually(5*time.Minute, "n1 has a fence", func() bool { return w.fence("n1") != nil })
		a.reign.ended.Store(true) // so that Run does nothing
		wait(w.ctx, 20*time.Second)
		all, err := a.Assess(w.ctx)
		require.NoError(t, err)
		require.Len(t, all, 4)
		verdicts := map[string]string{}
		for _, n := range all {
			verdicts[n.Node] = n.Decision.Reason
		}
		assert.Equal(t, map[string]string{
			"n1": "Allowed", "n2": "StillReady", "n3": "StillReady", "n4": "StillReady",
		}, verdicts)
		assert.ErrorContains(t, all[1].Err, "no answer")
		assert.NoError(t, all[0].Err)
		w.untouched("n1")
	})
}

func TestStorageIsCutOffFirst(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.configure("fence-config-node-n1", map[string]string{
			"config.properties": "node_name=n1\nisolation=mark-unschedulable port-off\npower_management=plug-off " +
				"plug-on\nrecovery=port-on mark-schedulable\nnot_ready_for=10s\npower_wait=5m\n",
			"fence-method-plug-off": "template=fence-method-template-rack\nplug={{.NodeName}}\naction=off\n",
			"fence-method-plug-on":  "template=fence-method-template-rack\nplug={{.NodeName}}\naction=on\n",
			"fence-method-port-off": "template=fence-method-template-rack\nplug=port\naction=off\n",
			"fence-method-port-on":  "template=fence-method-template-rack\nplug=port\naction=on\n",
		})
		w.pod("writes", "n1",
			corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "san"}}})
		w.pod("computes", "n1")
		a := w.start("a", func(c *fencing.Config) {
			c.Storage = map[string]api.Storage{"port-off": {Drivers: []string{"san"}}}
		})
		defer a.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		w.eventually(5*time.Minute, "the node is isolated",
			func() bool { return w.phase("n1") == v1alpha1.PhaseIsolated })
		assert.Equal(t, []string{"computes"}, w.pods("n1"))
		assert.False(t, w.rack.On("port"))
		assert.True(t, w.rack.On("n1"))
		w.lose("n1")
		w.ends("n1", v1alpha1.PhaseFinal)
		w.requireFencedOnce("n1")
		assert.True(t, w.rack.On("port"))
		assert.Equal(t, 1, w.rack.Count("port", "command", agent.ActionOff))
	})
}

// TestStorageThatHasAnotherPath has two ports lead to one storage. One of them cannot be switched
// off, which its template allows.
func TestStorageThatHasAnotherPath(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		breaches := w.referee()
		w.wired("mark-unschedulable port-off feed-off", "n1-off n1-on", "feed-on port-on mark-schedulable",
			"power_wait=5m\n")
		w.pod("writes", "n1",
			corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "san"}}})
		a := w.start("a", func(c *fencing.Config) {
			san := api.Storage{Drivers: []string{"san"}}
			c.Storage = map[string]api.Storage{"port-off": san, "feed-off": san}
		})
		defer a.stop()
		wait(w.ctx, settled)
		w.rack.Break("port", fencingtest.Fault{Ignore: true})
		w.lose("n1")
		w.eventually(5*time.Minute, "its pods are released", func() bool { return len(w.pods("n1")) == 0 })
		require.Empty(t, breaches())
	})
}

// escaping has a process that cannot be ended.
type escaping struct{ agents }

func (e escaping) Switch(ctx context.Context, target agent.Target, command agent.Command) error {
	return errors.Join(e.agents.Switch(ctx, target, command), agent.ErrAlive)
}

func TestNothingIsDoneBesideAnAgentThatCannotBeEnded(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.pod("db-0", "n1")
		a := w.start("a", func(c *fencing.Config) { c.Agents = escaping{agents{w.rack}} })
		defer a.stop()
		wait(w.ctx, settled)
		w.lose("n1")
		wait(w.ctx, time.Hour)
		assert.Len(t, w.rack.Events(), 2) // one command, and what it did
		assert.Equal(t, []string{"db-0"}, w.pods("n1"))
	})
}
