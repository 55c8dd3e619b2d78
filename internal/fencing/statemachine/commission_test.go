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

// newTrial returns a cluster with a node that works, is cordoned, and whose devices somebody wants to
// have tried.
func newTrial(t *testing.T, plan nodeplan.Plan) *cluster {
	t.Helper()
	c := newCluster(t, plan)
	c.back()
	c.node.Cordoned = true
	c.annotate(v1alpha1.AnnotationCommission, "boot 1")
	return c
}

// ended does one thing after another until the commission has come to its end.
func (c *cluster) ended() *v1alpha1.Status {
	c.t.Helper()
	for range manySteps {
		if s := c.status(); s.Phase.Ended() {
			return s
		}
		c.step()
	}
	require.Fail(c.t, "never ends", c.transcript())
	return nil
}

// count is how often a command was sent.
func (c *cluster) count(name string, action agent.Action) (n int) {
	for _, command := range c.plugs[name].commands {
		if command == action {
			n++
		}
	}
	return n
}

func TestFlowOfACommission(t *testing.T) {
	c := newTrial(t, bmc())
	c.ended()
	golden(t, c, `
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
	assert.Empty(t, c.status().Commission.Failed)
	assert.Empty(t, c.status().Problems.Starts, "it is not a fence")
	assert.Empty(t, c.fence.Annotations)
	c.rest(time.Hour)
	assert.Equal(t, 1, c.count("bmc", agent.ActionOff))

	// What was asked for is never done twice, however it comes back.
	c.annotate(v1alpha1.AnnotationCommission, "boot 1")
	c.rest(time.Hour)
	assert.Equal(t, 1, c.count("bmc", agent.ActionOff))
	assert.Empty(t, c.fence.Annotations)
	c.annotate(v1alpha1.AnnotationCommission, "boot 2/again")
	c.until(statemachine.CommissionBegun)
	assert.Equal(t, int64(2), c.status().Incident)
}

// A node that fails is fenced, whatever somebody has asked for before.
func TestFailingNodeIsFencedNotCommissioned(t *testing.T) {
	c := newCluster(t, bmc())
	c.trigger = &v1alpha1.Trigger{Type: "Ready", Status: "Unknown"}
	c.annotate(v1alpha1.AnnotationCommission, "boot 1")
	c.phase(v1alpha1.PhaseIsolated)
	assert.Empty(t, c.fence.Annotations)
	assert.NotContains(t, c.transcript(), "CommissionBegun")
}

// Whatever is not as it should be before the command, no command is sent.
func TestCommissionThatMayNotBegin(t *testing.T) {
	for name, change := range map[string]func(c *cluster){
		"another boot ID was meant": func(c *cluster) { c.annotate(v1alpha1.AnnotationCommission, "boot 0") },
		"the device reads off":      func(c *cluster) { c.plugs["other"] = c.plugs["bmc"]; c.plugs["bmc"] = &plug{} },
		"the device cannot be read": func(c *cluster) { c.plugs["bmc"].silent = true },
		"the policy does not allow it": func(c *cluster) {
			c.policy.Continue = &policy.Decision{Verdict: policy.Hold, Message: "storm"}
		},
		"the policy allows it later": func(c *cluster) {
			c.policy.Continue = &policy.Decision{Verdict: policy.Wait, Message: "later"}
		},
		"the configuration cannot be used": func(c *cluster) { c.unresolved = "wrong" },
		"no device is configured":          func(c *cluster) { c.plan.PowerManagement = nil },
		"the node is not cordoned":         func(c *cluster) { c.node.Cordoned = false },
		"the node fails":                   func(c *cluster) { c.node.Failing = true },
		"the node is not Ready":            func(c *cluster) { c.node.Ready = false },
		"the node has rebooted meanwhile": func(c *cluster) {
			c.until(statemachine.CommissionBegun)
			c.node.BootID = "boot 1b"
		},
		"the configuration has changed": func(c *cluster) {
			c.until(statemachine.CommissionBegun)
			c.plan.Hash = "2"
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTrial(t, bmc())
			change(c)
			for range 200 {
				c.step()
				require.NotContains(t, c.transcript(), "off bmc")
			}
			assert.Equal(t, v1alpha1.PhaseFinal, c.status().Phase)
			require.NotNil(t, c.status().Commission)
			assert.NotEmpty(t, c.status().Commission.Failed)
			assert.NotContains(t, c.methods, statemachine.Commission)
		})
	}
}

// What stands in the way for a time that is known is waited for.
func TestCommissionWaitsForAKnownTime(t *testing.T) {
	c := newTrial(t, bmc())
	c.policy.Continue = &policy.Decision{
		Verdict: policy.Hold, Reason: "OwnPartition", Message: "has to watch",
		After: 20 * time.Second,
	}
	c.rest(time.Minute)
	assert.Equal(t, "OwnPartition", c.status().Hold.Reason)
	c.policy.Continue = nil
	assert.Empty(t, c.ended().Commission.Failed)
	assert.Nil(t, c.status().Hold)
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
			c := newTrial(t, bmc())
			c.until(statemachine.OffIntent)
			c.shown = change
			for range 50 {
				c.step()
			}
			c.shown = nil
			c.ended()
			assert.Zero(t, c.count("bmc", agent.ActionOff))
			assert.NotEmpty(t, c.status().Commission.Failed)
		})
	}
}

// A device that does not obey, or is another machine's, proves nothing, gets one command,
// and what is off is switched on again.
func TestCommissionThatProvesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *cluster)
		ends   v1alpha1.Phase
		says   string
	}{
		"the device ignores commands": {
			func(c *cluster) { c.plugs["bmc"].deaf = true }, v1alpha1.PhaseFinal, "reads on",
		},
		"the device cannot be read": {func(c *cluster) {
			c.until(statemachine.OffIntent)
			next[statemachine.Call](c)
			c.plugs["bmc"].silent = true
			c.until(statemachine.CommissionFailed)
			c.plugs["bmc"].silent = false
		}, v1alpha1.PhaseFinal, "cannot be read"},
		"the node goes on": {func(c *cluster) {
			c.shown = func(n *statemachine.Node) {
				n.Ready, n.Failing, n.BootID, n.Renewal = true, false, "boot 1",
					fmt.Sprint(int(c.elapsed()/(10*time.Second)))
			}
		}, v1alpha1.PhaseFinal, "another machine's"},
		"the node stays Ready, and silent": {func(c *cluster) {
			c.shown = func(n *statemachine.Node) {
				if !c.powered() {
					n.Ready, n.Failing = true, false
				}
			}
		}, v1alpha1.PhaseFinal, "is Ready nevertheless"},
		"the node is lost, and its machine goes on": {func(c *cluster) {
			c.shown = func(n *statemachine.Node) { n.BootID = "boot 1" }
		}, v1alpha1.PhaseFinal, "has not lost its power"},
		"somebody switches it on": {func(c *cluster) {
			c.shown = func(n *statemachine.Node) { n.Ready, n.Failing = true, false }
			c.until(statemachine.AllOff)
			c.rest(20 * time.Second)
			c.plugs["bmc"].on, c.shown = true, nil
		}, v1alpha1.PhaseFinal, "reads on that was off"},
		"the configuration changes": {func(c *cluster) {
			c.until(statemachine.OffSeen)
			c.plan.Hash = "2"
		}, v1alpha1.PhaseFinal, "has changed"},
		"the configuration breaks": {func(c *cluster) {
			c.until(statemachine.OffSeen)
			plan := c.plan
			c.plan, c.unresolved = nodeplan.Defaults(), "wrong"
			c.rest(time.Minute)
			assert.Equal(c.t, "NotConfigured", c.status().Hold.Reason, "the machine is off, and the record says why")
			c.plan, c.unresolved = plan, ""
		}, v1alpha1.PhaseFinal, "cannot be used"},
		"the machine does not start": {
			func(c *cluster) { c.boots = false }, v1alpha1.PhaseGivenUp,
			"did not come back",
		},
		"the device cannot be switched on": {func(c *cluster) {
			c.until(statemachine.NodeWentDown)
			c.plugs["bmc"].deaf = true
		}, v1alpha1.PhaseGivenUp, "did not come back"},
		"an admin stops it": {func(c *cluster) {
			c.until(statemachine.AllOff)
			c.annotate(v1alpha1.AnnotationStop, "restore")
		}, v1alpha1.PhaseFinal, "StopRestore"},
		"an admin stops it and wants all as it is": {func(c *cluster) {
			c.until(statemachine.AllOff)
			c.annotate(v1alpha1.AnnotationStop, "hold")
		}, v1alpha1.PhaseGivenUp, "StopHold"},
		"the node is deleted": {func(c *cluster) {
			c.until(statemachine.AllOff)
			c.node.Missing = true
		}, v1alpha1.PhaseGivenUp, "NodeGone"},
		"the proof cannot be written at the node": {
			func(c *cluster) { c.failing[statemachine.Commission] = 9 },
			v1alpha1.PhaseFinal, "written down",
		},
		"the record is deleted": {func(c *cluster) {
			c.until(statemachine.AllOff)
			c.annotate(v1alpha1.AnnotationStop, "restore")
		}, v1alpha1.PhaseFinal, "StopRestore"},
		"the configuration changes before the end": {
			func(c *cluster) { c.until(statemachine.NodeBack); c.plan.Hash = "2" },
			v1alpha1.PhaseFinal, "has changed",
		},
		"the device is not configured when it is off": {func(c *cluster) {
			c.until(statemachine.OffSeen)
			plan := c.plan
			c.plan.Hash, c.plan.PowerManagement = "2", nil
			c.rest(time.Minute)
			assert.Equal(c.t, "ConfigurationChanged", c.status().Hold.Reason)
			c.plan = plan
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
	c := newTrial(t, plan)
	c.until(statemachine.NextLevel)
	assert.Equal(t, int32(2), c.status().Level)
	assert.Equal(t, "boot 2", c.status().BootID)
	c.shown = func(n *statemachine.Node) {
		if c.count("pdu-b", agent.ActionOn) > 0 {
			n.BootID = "boot 3"
		}
	}
	s := c.ended()
	assert.Empty(t, s.Commission.Failed, c.transcript())
	assert.Equal(t, []string{statemachine.Commission, statemachine.Commission}, c.methods)
	for name, p := range c.plugs {
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
			c := newTrial(t, plan)
			for range n {
				c.step()
			}
			over := c.status().Phase == v1alpha1.PhaseFinal
			for range away / time.Minute {
				c.pass(time.Minute)
			}
			c.restart()
			s := c.ended()
			require.Equal(t, v1alpha1.PhaseFinal, s.Phase, c.transcript())
			for _, name := range []string{"a", "b"} {
				require.LessOrEqual(t, c.count(name, agent.ActionOff), 1, c.transcript())
				require.True(t, c.plugs[name].on, c.transcript())
			}
			if s.Commission.Failed == "" {
				proved++
			} else { // it was written down, and never sent
				require.Less(t, c.count("a", agent.ActionOff)+c.count("b", agent.ActionOff), 2, c.transcript())
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
		c := newTrial(t, bmc())
		for range n {
			c.step()
		}
		if c.status().Phase == v1alpha1.PhaseFinal {
			break
		}
		if c.status().Phase == "" {
			continue
		}
		c.annotate(v1alpha1.AnnotationStop, "restore")
		s := c.ended()
		require.Contains(t, []v1alpha1.Phase{v1alpha1.PhaseFinal, v1alpha1.PhaseGivenUp}, s.Phase)
		require.True(t, c.plugs["bmc"].on, c.transcript())
		before := len(c.plugs["bmc"].commands)
		c.rest(time.Hour)
		require.Len(t, c.plugs["bmc"].commands, before)
	}
}
