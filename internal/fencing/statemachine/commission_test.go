package statemachine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

// newTrial returns a rig with a node that works, is cordoned, and whose devices somebody wants to
// have tried.
func newTrial(t *testing.T, plan nodeplan.Plan) *rig {
	t.Helper()
	r := newRig(t, plan)
	r.back()
	r.node.Cordoned = true
	r.annotate(v1alpha1.AnnotationCommission, "boot 1")
	return r
}

// ended does one thing after another until the commission has come to its end.
func (r *rig) ended() *v1alpha1.Status {
	r.t.Helper()
	for range manySteps {
		if s := r.status(); s.Phase.Ended() {
			return s
		}
		r.step()
	}
	require.Fail(r.t, "never ends", r.transcript())
	return nil
}

// count is how often a command was sent.
func (r *rig) count(name string, action agent.Action) (n int) {
	for _, c := range r.plugs[name].commands {
		if c == action {
			n++
		}
	}
	return n
}

func TestFlowOfACommission(t *testing.T) {
	r := newTrial(t, bmc())
	r.ended()
	golden(t, r, `
    0s CommissionBegun: Commissioning (Power-Management/Running)
    0s taken: fencing.bellwether.dev/commission
    0s OffIntent: Commissioning (Power-Management/Running)
    0s off bmc
    2s OffSeen: Commissioning (Power-Management/Running)
    2s AllOff: Commissioning (Power-Management/Running)
    2s NodeWentDown: Restoring (Power-Management/Running)
   31s OnIntent: Restoring (Power-Management/Running)
   31s on bmc
  1m2s OnSeen: Restoring (Power-Management/Running)
  1m2s PowerRestored: Booting (Power-Management/Done)
 1m32s NodeBack: Recovering (Recovery/Running)
 1m42s commission
 1m42s Commissioned: Final (Recovery/Final)
`)
	assert.Empty(t, r.status().Commission.Failed)
	assert.Empty(t, r.status().Problems.Starts, "it is not a fence")
	assert.Empty(t, r.fence.Annotations)
	r.rest(time.Hour)
	assert.Equal(t, 1, r.count("bmc", agent.ActionOff))

	// What was asked for is never done twice, however it comes back.
	r.annotate(v1alpha1.AnnotationCommission, "boot 1")
	r.rest(time.Hour)
	assert.Equal(t, 1, r.count("bmc", agent.ActionOff))
	assert.Empty(t, r.fence.Annotations)
	r.annotate(v1alpha1.AnnotationCommission, "boot 2/again")
	r.until(statemachine.CommissionBegun)
	assert.Equal(t, int64(2), r.status().Incident)
}

// A node that fails is fenced, whatever somebody has asked for before.
func TestFailingNodeIsFencedNotCommissioned(t *testing.T) {
	r := newRig(t, bmc())
	r.trigger = &v1alpha1.Trigger{Type: "Ready", Status: "Unknown"}
	r.annotate(v1alpha1.AnnotationCommission, "boot 1")
	r.phase(v1alpha1.PhaseIsolated)
	assert.Empty(t, r.fence.Annotations)
	assert.NotContains(t, r.transcript(), "CommissionBegun")
}

// Whatever is not as it should be before the command, no command is sent.
func TestCommissionThatMayNotBegin(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"another boot ID was meant": func(r *rig) { r.annotate(v1alpha1.AnnotationCommission, "boot 0") },
		"the device reads off":      func(r *rig) { r.plugs["other"] = r.plugs["bmc"]; r.plugs["bmc"] = &plug{} },
		"the device cannot be read": func(r *rig) { r.plugs["bmc"].silent = true },
		"the policy does not allow it": func(r *rig) {
			r.policy.Continue = &policy.Decision{Verdict: policy.Hold, Message: "storm"}
		},
		"the policy allows it later": func(r *rig) {
			r.policy.Continue = &policy.Decision{Verdict: policy.Wait, Message: "later"}
		},
		"the configuration cannot be used": func(r *rig) { r.unresolved = "wrong" },
		"no device is configured":          func(r *rig) { r.plan.PowerManagement = nil },
		"the node is not cordoned":         func(r *rig) { r.node.Cordoned = false },
		"the node fails":                   func(r *rig) { r.node.Failing = true },
		"the node is not Ready":            func(r *rig) { r.node.Ready = false },
		"the node has rebooted meanwhile": func(r *rig) {
			r.until(statemachine.CommissionBegun)
			r.node.BootID = "boot 1b"
		},
		"the configuration has changed": func(r *rig) {
			r.until(statemachine.CommissionBegun)
			r.plan.Hash = "2"
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, bmc())
			change(r)
			for range 200 {
				r.step()
				require.NotContains(t, r.transcript(), "off bmc")
			}
			assert.Equal(t, v1alpha1.PhaseFinal, r.status().Phase)
			require.NotNil(t, r.status().Commission)
			assert.NotEmpty(t, r.status().Commission.Failed)
			assert.NotContains(t, r.methods, statemachine.Commission)
		})
	}
}

// What stands in the way for a time that is known is waited for.
func TestCommissionWaitsForAKnownTime(t *testing.T) {
	r := newTrial(t, bmc())
	r.policy.Continue = &policy.Decision{
		Verdict: policy.Hold, Reason: "OwnPartition", Message: "has to watch",
		After: 20 * time.Second,
	}
	r.rest(time.Minute)
	assert.Equal(t, "OwnPartition", r.status().Hold.Reason)
	r.policy.Continue = nil
	assert.Empty(t, r.ended().Commission.Failed)
	assert.Nil(t, r.status().Hold)
}

// The node is looked at once more when the command is written down.
func TestCommissionIsCancelledInTheLastMoment(t *testing.T) {
	for name, change := range map[string]func(n *statemachine.Node){
		"uncordoned": func(n *statemachine.Node) { n.Cordoned = false },
		"not Ready":  func(n *statemachine.Node) { n.Ready = false },
		"restarted":  func(n *statemachine.Node) { n.BootID = "boot 1b" },
		"gone":       func(n *statemachine.Node) { n.Missing = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, bmc())
			r.until(statemachine.OffIntent)
			r.shown = change
			for range 50 {
				r.step()
			}
			r.shown = nil
			r.ended()
			assert.Zero(t, r.count("bmc", agent.ActionOff))
			assert.NotEmpty(t, r.status().Commission.Failed)
		})
	}
}

// A device that does not obey, or is another machine's, proves nothing, gets one command,
// and what is off is switched on again.
func TestCommissionThatProvesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *rig)
		ends   v1alpha1.Phase
		says   string
	}{
		"the device ignores commands": {func(r *rig) { r.plugs["bmc"].deaf = true }, v1alpha1.PhaseFinal, "reads on"},
		"the device cannot be read": {func(r *rig) {
			r.until(statemachine.OffIntent)
			next[statemachine.Call](r)
			r.plugs["bmc"].silent = true
			r.until(statemachine.CommissionFailed)
			r.plugs["bmc"].silent = false
		}, v1alpha1.PhaseFinal, "cannot be read"},
		"the node goes on": {func(r *rig) {
			r.shown = func(n *statemachine.Node) {
				n.Ready, n.Failing, n.BootID, n.Renewal = true, false, "boot 1",
					fmt.Sprint(int(r.elapsed()/(10*time.Second)))
			}
		}, v1alpha1.PhaseFinal, "another machine's"},
		"the node stays Ready, and silent": {func(r *rig) {
			r.shown = func(n *statemachine.Node) {
				if !r.powered() {
					n.Ready, n.Failing = true, false
				}
			}
		}, v1alpha1.PhaseFinal, "is Ready nevertheless"},
		"the node is lost, and its machine goes on": {func(r *rig) {
			r.shown = func(n *statemachine.Node) { n.BootID = "boot 1" }
		}, v1alpha1.PhaseFinal, "has not lost its power"},
		"somebody switches it on": {func(r *rig) {
			r.shown = func(n *statemachine.Node) { n.Ready, n.Failing = true, false }
			r.until(statemachine.AllOff)
			r.rest(20 * time.Second)
			r.plugs["bmc"].on, r.shown = true, nil
		}, v1alpha1.PhaseFinal, "reads on that was off"},
		"the configuration changes": {func(r *rig) {
			r.until(statemachine.OffSeen)
			r.plan.Hash = "2"
		}, v1alpha1.PhaseFinal, "has changed"},
		"the configuration breaks": {func(r *rig) {
			r.until(statemachine.OffSeen)
			plan := r.plan
			r.plan, r.unresolved = nodeplan.Defaults(), "wrong"
			r.rest(time.Minute)
			assert.Equal(r.t, "NotConfigured", r.status().Hold.Reason, "the machine is off, and the record says why")
			r.plan, r.unresolved = plan, ""
		}, v1alpha1.PhaseFinal, "cannot be used"},
		"the machine does not start": {
			func(r *rig) { r.boots = false }, v1alpha1.PhaseGivenUp,
			"did not come back",
		},
		"the device cannot be switched on": {func(r *rig) {
			r.until(statemachine.NodeWentDown)
			r.plugs["bmc"].deaf = true
		}, v1alpha1.PhaseGivenUp, "did not come back"},
		"an admin stops it": {func(r *rig) {
			r.until(statemachine.AllOff)
			r.annotate(v1alpha1.AnnotationStop, "restore")
		}, v1alpha1.PhaseFinal, "StopRestore"},
		"an admin stops it and wants all as it is": {func(r *rig) {
			r.until(statemachine.AllOff)
			r.annotate(v1alpha1.AnnotationStop, "hold")
		}, v1alpha1.PhaseGivenUp, "StopHold"},
		"the node is deleted": {func(r *rig) {
			r.until(statemachine.AllOff)
			r.node.Missing = true
		}, v1alpha1.PhaseGivenUp, "NodeGone"},
		"the proof cannot be written at the node": {
			func(r *rig) { r.failing[statemachine.Commission] = 9 },
			v1alpha1.PhaseFinal, "written down",
		},
		"the record is deleted": {func(r *rig) {
			r.until(statemachine.AllOff)
			r.annotate(v1alpha1.AnnotationStop, "restore")
		}, v1alpha1.PhaseFinal, "StopRestore"},
		"the configuration changes before the end": {
			func(r *rig) { r.until(statemachine.NodeBack); r.plan.Hash = "2" },
			v1alpha1.PhaseFinal, "has changed",
		},
		"the device is not configured when it is off": {func(r *rig) {
			r.until(statemachine.OffSeen)
			plan := r.plan
			r.plan.Hash, r.plan.PowerManagement = "2", nil
			r.rest(time.Minute)
			assert.Equal(r.t, "ConfigurationChanged", r.status().Hold.Reason)
			r.plan = plan
		}, v1alpha1.PhaseFinal, "has changed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, bmc())
			c.change(r)
			s := r.ended()
			assert.Equal(t, c.ends, s.Phase, r.transcript())
			assert.Contains(t, s.Commission.Failed, c.says)
			assert.Equal(t, 1, r.count("bmc", agent.ActionOff))
			if c.ends == v1alpha1.PhaseFinal {
				assert.True(t, r.plugs["bmc"].on)
			} else if !r.plugs["bmc"].on {
				assert.Contains(t, s.Conditions[slices.IndexFunc(s.Conditions, isPoweredOff)].Message, "bmc")
			}
			for _, reason := range []statemachine.Reason{
				statemachine.NotReadyTimeout, statemachine.FlowRestarted,
				statemachine.ReleaseBegun, statemachine.Commissioned,
			} {
				assert.NotContains(t, r.transcript(), string(reason)+":")
			}
			before := len(r.plugs["bmc"].commands)
			r.annotate(v1alpha1.AnnotationCommission, "boot 1")
			r.rest(2 * time.Hour)
			assert.Len(t, r.plugs["bmc"].commands, before, "nothing comes after the end")
		})
	}
}

func isPoweredOff(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionPoweredOff }

// Each level is tried by itself, and the node has to restart each time.
func TestCommissionTriesEachLevel(t *testing.T) {
	plan := planOf(nodeplan.Level{feed("bmc")}, nodeplan.Level{feed("pdu-a"), feed("pdu-b")})
	plan.PowerOn = nodeplan.Manual
	r := newTrial(t, plan)
	r.until(statemachine.NextLevel)
	assert.Equal(t, int32(2), r.status().Level)
	assert.Equal(t, "boot 2", r.status().BootID)
	r.shown = func(n *statemachine.Node) {
		if r.count("pdu-b", agent.ActionOn) > 0 {
			n.BootID = "boot 3"
		}
	}
	s := r.ended()
	assert.Empty(t, s.Commission.Failed, r.transcript())
	assert.Equal(t, []string{statemachine.Commission, statemachine.Commission}, r.methods)
	for name, p := range r.plugs {
		assert.Equal(t, []agent.Action{agent.ActionOff, agent.ActionOn}, p.commands, name)
		assert.True(t, p.on, "power_on is about machines that have failed")
	}
}

// The controller is restarted after any step, and after an hour goes on or ends it: no device
// gets two commands to switch off, and none is left off.
func TestCommissionSurvivesRestarts(t *testing.T) {
	plan := planOf(nodeplan.Level{feed("a"), feed("b")})
	proved := 0
	for _, away := range []time.Duration{0, time.Hour} {
		for n := 1; ; n++ {
			r := newTrial(t, plan)
			for range n {
				r.step()
			}
			over := r.status().Phase == v1alpha1.PhaseFinal
			for range away / time.Minute {
				r.pass(time.Minute)
			}
			r.restart()
			s := r.ended()
			require.Equal(t, v1alpha1.PhaseFinal, s.Phase, r.transcript())
			for _, name := range []string{"a", "b"} {
				require.LessOrEqual(t, r.count(name, agent.ActionOff), 1, r.transcript())
				require.True(t, r.plugs[name].on, r.transcript())
			}
			if s.Commission.Failed == "" {
				proved++
			} else { // it was written down, and never sent
				require.Less(t, r.count("a", agent.ActionOff)+r.count("b", agent.ActionOff), 2, r.transcript())
			}
			if over {
				break
			}
		}
	}
	assert.Positive(t, proved)
}

// A stop ends it wherever it is, and after its acknowledgement nothing is switched.
func TestCommissionIsStopped(t *testing.T) {
	for n := 1; ; n++ {
		r := newTrial(t, bmc())
		for range n {
			r.step()
		}
		if r.status().Phase == v1alpha1.PhaseFinal {
			break
		}
		if r.status().Phase == "" {
			continue
		}
		r.annotate(v1alpha1.AnnotationStop, "restore")
		s := r.ended()
		require.Contains(t, []v1alpha1.Phase{v1alpha1.PhaseFinal, v1alpha1.PhaseGivenUp}, s.Phase)
		require.True(t, r.plugs["bmc"].on, r.transcript())
		before := len(r.plugs["bmc"].commands)
		r.rest(time.Hour)
		require.Len(t, r.plugs["bmc"].commands, before)
	}
}
