package statemachine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/proposal"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

func TestWaitsAreAsLongAsConfigured(t *testing.T) {
	plan := bmc()
	plan.NotReadyFor, plan.PowerWait, plan.BootGrace, plan.RestartDelay = 40*time.Second, 2*time.Minute, 3*time.Minute,
		50*time.Second
	r := newCluster(t, plan)
	r.boots = false
	var last time.Duration
	for _, c := range []struct {
		from, to statemachine.Reason
		want     time.Duration
	}{
		{statemachine.Begun, statemachine.NotReadyTimeout, plan.NotReadyFor},
		{statemachine.NodeIsolated, statemachine.PowerWaitOver, plan.PowerWait},
		{statemachine.PowerRestored, statemachine.BootGraceOver, plan.BootGrace},
		{"", statemachine.FlowRestarted, plan.RestartDelay},
		{"", statemachine.NotReadyTimeout, 0},
	} {
		if c.from != "" {
			r.until(c.from)
			last = r.elapsed()
		}
		r.until(c.to)
		assert.InDelta(t, c.want, r.elapsed()-last, float64(2*time.Second), c.to)
		last = r.elapsed()
	}
}

// The process before was on a machine whose clock was a day wrong.
func TestClockThatIsWrongShiftsAWaitByItsLengthAtMost(t *testing.T) {
	for since, wait := range map[time.Duration]time.Duration{
		-24 * time.Hour: 0, 0: nodeplan.Defaults().PowerWait,
		24 * time.Hour: nodeplan.Defaults().PowerWait,
	} {
		c := newCluster(t, bmc())
		c.phase(v1alpha1.PhaseIsolated)
		c.status().Wait.Since = metav1.NewMicroTime(c.now.Wall.Add(since))
		c.restart()
		began := c.elapsed()
		c.phase(v1alpha1.PhasePowering)
		assert.InDelta(t, wait, c.elapsed()-began, float64(2*time.Second), since)
	}
}

// The clock of this process is set while it waits.
func TestClockThatIsSetDoesNotChangeAWait(t *testing.T) {
	for _, step := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		c := newCluster(t, bmc())
		c.phase(v1alpha1.PhaseIsolated)
		began := c.now.Monotonic
		c.now.Wall = c.now.Wall.Add(step)
		c.phase(v1alpha1.PhasePowering)
		assert.InDelta(t, nodeplan.Defaults().PowerWait, c.now.Monotonic-began, float64(2*time.Second), step)
	}
}

// A controller that dies again and again comes to the end of a wait all the same.
func TestWaitGoesOnWithTheNextProcess(t *testing.T) {
	c := newCluster(t, bmc())
	c.phase(v1alpha1.PhaseIsolated)
	began := c.elapsed()
	for c.status().Phase == v1alpha1.PhaseIsolated && c.elapsed() < time.Hour {
		c.rest(time.Minute)
		c.restart()
	}
	assert.InDelta(t, nodeplan.Defaults().PowerWait, c.elapsed()-began, float64(time.Minute+time.Second))
}

func TestNodeThatIsGoneIsNotTouched(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{
		v1alpha1.PhaseDetected, v1alpha1.PhaseIsolating, v1alpha1.PhaseIsolated,
		v1alpha1.PhasePowering, v1alpha1.PhaseVerifying, v1alpha1.PhaseError, v1alpha1.PhaseBooting,
	} {
		t.Run(string(phase), func(t *testing.T) {
			c := newCluster(t, bmc())
			c.boots = false
			c.phase(phase)
			before := len(c.plugs["bmc"].commands)
			c.pass(2 * time.Second)
			c.node.UID = "other"
			c.node.Ready, c.node.Failing = true, false
			c.phase(v1alpha1.PhaseGivenUp)
			assert.Equal(t, v1alpha1.AbortNodeGone, c.status().Abort)
			assert.Len(t, c.plugs["bmc"].commands, before, "no power for what may be another's")
			assert.NotContains(t, c.methods, nodeplan.MarkSchedulable)
		})
	}
}

func TestPolicy(t *testing.T) {
	t.Run("holds before the first command, and the record says why once", func(t *testing.T) {
		c := newCluster(t, bmc())
		c.policy.Admit = &policy.Decision{
			Verdict: policy.Hold, Reason: "Storm",
			Message: "half of the nodes are failing",
		}
		c.rest(time.Hour)
		assert.Equal(t, v1alpha1.PhaseDetected, c.status().Phase)
		assert.Equal(t, "Storm", c.status().Hold.Reason)
		assert.Equal(t, "half of the nodes are failing", c.status().Hold.Message)
		writes := 0
		for _, step := range c.steps {
			if w, ok := step.(statemachine.Write); ok && w.Reason == statemachine.Held {
				writes++
			}
		}
		assert.Equal(t, 1, writes)
		c.policy = statemachine.Policy{}
		c.until(statemachine.NotReadyTimeout)
		assert.Nil(t, c.status().Hold)
	})
	t.Run("is asked again before a command", func(t *testing.T) {
		c := newCluster(t, bmc())
		c.phase(v1alpha1.PhasePowering)
		c.policy.Admit = &policy.Decision{Verdict: policy.Wait, Reason: "Queue", After: time.Minute}
		c.rest(10 * time.Minute)
		assert.Empty(t, c.plugs["bmc"].commands)
		assert.Equal(t, time.Minute, c.steps[len(c.steps)-1].(statemachine.Wait).For)
	})
	t.Run("admits only once", func(t *testing.T) {
		c := newCluster(t, planOf(nodeplan.Level{feed("a"), feed("b")}))
		c.until(statemachine.OffSeen)
		c.policy.Admit = &policy.Decision{Verdict: policy.Hold, Reason: "Storm"}
		c.until(statemachine.Verified)
	})
	t.Run("may hold between commands", func(t *testing.T) {
		c := newCluster(t, planOf(nodeplan.Level{feed("a"), feed("b")}))
		c.until(statemachine.OffSeen)
		c.policy.Continue = &policy.Decision{Verdict: policy.Hold, Reason: "OwnPartition"}
		c.rest(time.Hour)
		assert.Empty(t, c.plugs["b"].commands)
		assert.Equal(t, "OwnPartition", c.status().Hold.Reason)
	})
	t.Run("may end the fence", func(t *testing.T) {
		c := newCluster(t, bmc())
		c.policy.Admit = &policy.Decision{Verdict: policy.Deny, Reason: "Excluded"}
		c.phase(v1alpha1.PhaseGivenUp)
		assert.Empty(t, c.plugs["bmc"].commands)
	})
}

func TestMethods(t *testing.T) {
	plan := func(optional bool) nodeplan.Plan {
		p := bmc()
		p.Isolation = nodeplan.Level{
			{Name: "clean-pods", MustSucceed: !optional}, {Name: "detach-volumes", MustSucceed: true},
		}
		p.Recovery = nodeplan.Level{{Name: "attach"}, {Name: nodeplan.MarkSchedulable}, {Name: "tell"}}
		return p
	}
	t.Run("are carried out in order, the taint first and last", func(t *testing.T) {
		c := newCluster(t, plan(false))
		c.phase(v1alpha1.PhaseFinal)
		assert.Equal(t,
			[]string{
				nodeplan.MarkUnschedulable, "clean-pods", "detach-volumes", "attach", "tell",
				nodeplan.MarkSchedulable,
			}, c.methods)
		assert.False(t, c.status().Taints.Fence)
	})
	t.Run("are tried again from the first, three times", func(t *testing.T) {
		c := newCluster(t, plan(false))
		c.failing["detach-volumes"] = 2
		c.phase(v1alpha1.PhaseIsolated)
		assert.Len(t, c.methods, 9)
		c = newCluster(t, plan(false))
		c.failing["detach-volumes"] = 3
		c.until(statemachine.IsolationFailed)
		assert.Equal(t, v1alpha1.StepIsolation, c.status().Step)
		assert.Equal(t, v1alpha1.StageError, c.status().Status)
	})
	t.Run("may fail if they need not succeed", func(t *testing.T) {
		c := newCluster(t, plan(true))
		c.failing["clean-pods"] = 3
		c.phase(v1alpha1.PhaseIsolated)
		assert.Equal(t, []string{nodeplan.MarkUnschedulable, "clean-pods", "detach-volumes"}, c.methods)
	})
	t.Run("of the recovery that fail are an error, and tried again", func(t *testing.T) {
		c := newCluster(t, plan(false))
		c.failing["attach"] = 3
		c.until(statemachine.RecoveryFailed)
		assert.Equal(t, v1alpha1.StepRecovery, c.status().Step)
		c.phase(v1alpha1.PhaseFinal)
		assert.Equal(t, []agent.Action{off, on}, c.plugs["bmc"].commands)
	})
	t.Run("leave the taint if somebody else removes it", func(t *testing.T) {
		p := bmc()
		p.Recovery = nodeplan.Level{{Name: nodeplan.MarkUnschedulable}}
		c := newCluster(t, p)
		c.phase(v1alpha1.PhaseFinal)
		assert.NotContains(t, c.methods, nodeplan.MarkSchedulable)
		assert.True(t, c.status().Taints.Fence)
	})
}

func TestOptionalDeviceOfTheIsolation(t *testing.T) {
	p := storage()
	p.Isolation[0].MustSucceed = false
	c := newCluster(t, p)
	c.plugs["port"].silent, c.plugs["port"].deaf = true, true
	c.phase(v1alpha1.PhaseIsolated)
	assert.Empty(t, c.status().StorageReleased)
	p.Isolation[0].MustSucceed = true
	c = newCluster(t, p)
	c.plugs["port"].silent, c.plugs["port"].deaf = true, true
	c.until(statemachine.IsolationFailed)
}

func TestWithoutDevicesAHumanIsNeeded(t *testing.T) {
	c := newCluster(t, nodeplan.Defaults())
	c.rest(time.Hour)
	assert.Equal(t, "NoPowerDevice", c.status().Hold.Reason)
	c.annotate(v1alpha1.AnnotationConfirmOff, "1")
	c.until(statemachine.WorkloadsFreed)
}

func TestWithoutAPlanTheFenceStands(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{
		v1alpha1.PhaseDetected, v1alpha1.PhaseIsolating, v1alpha1.PhaseIsolated,
		v1alpha1.PhasePowering, v1alpha1.PhaseVerifying, v1alpha1.PhaseReleasing, v1alpha1.PhaseRestoring,
		v1alpha1.PhaseRecovering,
	} {
		t.Run(string(phase), func(t *testing.T) {
			c := newCluster(t, storage())
			c.phase(phase)
			c.plan, c.unresolved = nodeplan.Defaults(), "the object is gone"
			c.rest(10 * time.Minute)
			assert.Equal(t, phase, c.status().Phase)
			assert.Equal(t, "NotConfigured", c.status().Hold.Reason)
			assert.Equal(t, "the object is gone", c.status().Hold.Message)
			c.plan, c.unresolved = storage(), ""
			c.phase(v1alpha1.PhaseFinal)
			assert.Equal(t, []string{nodeplan.MarkUnschedulable, nodeplan.MarkSchedulable}, c.methods)
		})
	}
}

func TestPowerThatStaysOff(t *testing.T) {
	plan := bmc()
	plan.PowerOn = nodeplan.Never
	c := newCluster(t, plan)
	c.phase(v1alpha1.PhaseGivenUp)
	assert.Equal(t, []agent.Action{off}, c.plugs["bmc"].commands)
	assert.Equal(t, v1alpha1.ReleasedDone, c.status().Released)
	assertCondition(t, c, v1alpha1.ConditionPoweredOff, "True")

	plan.PowerManagement[0] = append(plan.PowerManagement[0], nodeplan.Method{Name: nodeplan.DeleteNode})
	c = newCluster(t, plan)
	c.failing[nodeplan.DeleteNode] = 1
	c.until(statemachine.NodeRemoved)
	assert.Equal(t, v1alpha1.PhaseFinal, c.status().Phase)
	assert.Equal(t, []string{nodeplan.MarkUnschedulable, nodeplan.DeleteNode, nodeplan.DeleteNode},
		c.methods)
}

// The Node need not be deleted any more, or must not.
func TestNodeThatIsNotDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*statemachine.Node)
		phase   v1alpha1.Phase
	}{
		"it is gone":             {func(n *statemachine.Node) { n.Missing = true }, v1alpha1.PhaseFinal},
		"it is another":          {func(n *statemachine.Node) { n.UID = "other" }, v1alpha1.PhaseFinal},
		"an autoscaler marks it": {func(n *statemachine.Node) { n.Leaving = true }, v1alpha1.PhaseFinal},
		"it works again": {
			func(n *statemachine.Node) { n.Ready, n.Failing = true, false }, v1alpha1.PhaseGivenUp,
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := bmc()
			plan.PowerOn = nodeplan.Never
			plan.PowerManagement[0] = append(plan.PowerManagement[0], nodeplan.Method{Name: nodeplan.DeleteNode})
			r := newCluster(t, plan)
			r.until(statemachine.LeftOff)
			r.shown = c.happens
			for r.status().Phase == v1alpha1.PhaseRestoring {
				r.step()
			}
			assert.Equal(t, c.phase, r.status().Phase)
			assert.NotContains(t, r.methods, nodeplan.DeleteNode)
		})
	}
}

func TestLateReturnIsRecovered(t *testing.T) {
	c := newCluster(t, bmc())
	c.boots = false
	c.phase(v1alpha1.PhaseGivenUp)
	c.back()
	c.phase(v1alpha1.PhaseFinal)
}

func TestPhaseOfALaterVersionIsLeftAlone(t *testing.T) {
	c := newCluster(t, bmc())
	c.phase(v1alpha1.PhaseIsolated)
	c.status().Phase = "Migrating"
	assert.Equal(t, statemachine.Wait{Why: `the phase "Migrating" is not known to this version`}, c.step())
}

func TestTransitionChangesNothing(t *testing.T) {
	c := newCluster(t, storage())
	for c.status().Phase != v1alpha1.PhaseFinal {
		before, memory := c.fence.DeepCopy(), c.memory
		first := c.decide()
		require.Equal(t, before, c.fence)
		require.Equal(t, memory, c.memory)
		require.Equal(t, first, c.decide())
		c.step()
	}
}

func TestRecordsBelongToTheStepsOfTheProposal(t *testing.T) {
	c := newCluster(t, bmc())
	c.boots = false
	for c.status().Phase != v1alpha1.PhaseGivenUp {
		c.step()
		if c.status().Phase != "" {
			_, err := proposal.Automaton(c.status().Step, c.status().Status)
			require.NoError(t, err)
		}
	}
}
