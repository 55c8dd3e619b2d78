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
	r := newRig(t, plan)
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
		r := newRig(t, bmc())
		r.phase(v1alpha1.PhaseIsolated)
		r.status().Wait.Since = metav1.NewMicroTime(r.now.Wall.Add(since))
		r.restart()
		began := r.elapsed()
		r.phase(v1alpha1.PhasePowering)
		assert.InDelta(t, wait, r.elapsed()-began, float64(2*time.Second), since)
	}
}

// The clock of this process is set while it waits.
func TestClockThatIsSetDoesNotChangeAWait(t *testing.T) {
	for _, step := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		r := newRig(t, bmc())
		r.phase(v1alpha1.PhaseIsolated)
		began := r.now.Monotonic
		r.now.Wall = r.now.Wall.Add(step)
		r.phase(v1alpha1.PhasePowering)
		assert.InDelta(t, nodeplan.Defaults().PowerWait, r.now.Monotonic-began, float64(2*time.Second), step)
	}
}

// A controller that dies again and again comes to the end of a wait all the same.
func TestWaitGoesOnWithTheNextProcess(t *testing.T) {
	r := newRig(t, bmc())
	r.phase(v1alpha1.PhaseIsolated)
	began := r.elapsed()
	for r.status().Phase == v1alpha1.PhaseIsolated && r.elapsed() < time.Hour {
		r.rest(time.Minute)
		r.restart()
	}
	assert.InDelta(t, nodeplan.Defaults().PowerWait, r.elapsed()-began, float64(time.Minute+time.Second))
}

func TestNodeThatIsGoneIsNotTouched(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{
		v1alpha1.PhaseDetected, v1alpha1.PhaseIsolating, v1alpha1.PhaseIsolated,
		v1alpha1.PhasePowering, v1alpha1.PhaseVerifying, v1alpha1.PhaseError, v1alpha1.PhaseBooting,
	} {
		t.Run(string(phase), func(t *testing.T) {
			r := newRig(t, bmc())
			r.boots = false
			r.phase(phase)
			before := len(r.plugs["bmc"].commands)
			r.pass(2 * time.Second)
			r.node.UID = "other"
			r.node.Ready, r.node.Failing = true, false
			r.phase(v1alpha1.PhaseGivenUp)
			assert.Equal(t, v1alpha1.AbortNodeGone, r.status().Abort)
			assert.Len(t, r.plugs["bmc"].commands, before, "no power for what may be another's")
			assert.NotContains(t, r.methods, nodeplan.MarkSchedulable)
		})
	}
}

func TestPolicy(t *testing.T) {
	t.Run("holds before the first command, and the record says why once", func(t *testing.T) {
		r := newRig(t, bmc())
		r.policy.Admit = &policy.Decision{
			Verdict: policy.Hold, Reason: "Storm",
			Message: "half of the nodes are failing",
		}
		r.rest(time.Hour)
		assert.Equal(t, v1alpha1.PhaseDetected, r.status().Phase)
		assert.Equal(t, "Storm", r.status().Hold.Reason)
		assert.Equal(t, "half of the nodes are failing", r.status().Hold.Message)
		writes := 0
		for _, step := range r.steps {
			if w, ok := step.(statemachine.Write); ok && w.Reason == statemachine.Held {
				writes++
			}
		}
		assert.Equal(t, 1, writes)
		r.policy = statemachine.Policy{}
		r.until(statemachine.NotReadyTimeout)
		assert.Nil(t, r.status().Hold)
	})
	t.Run("is asked again before a command", func(t *testing.T) {
		r := newRig(t, bmc())
		r.phase(v1alpha1.PhasePowering)
		r.policy.Admit = &policy.Decision{Verdict: policy.Wait, Reason: "Queue", After: time.Minute}
		r.rest(10 * time.Minute)
		assert.Empty(t, r.plugs["bmc"].commands)
		assert.Equal(t, time.Minute, r.steps[len(r.steps)-1].(statemachine.Wait).For)
	})
	t.Run("admits only once", func(t *testing.T) {
		r := newRig(t, planOf(nodeplan.Level{feed("a"), feed("b")}))
		r.until(statemachine.OffSeen)
		r.policy.Admit = &policy.Decision{Verdict: policy.Hold, Reason: "Storm"}
		r.until(statemachine.Verified)
	})
	t.Run("may hold between commands", func(t *testing.T) {
		r := newRig(t, planOf(nodeplan.Level{feed("a"), feed("b")}))
		r.until(statemachine.OffSeen)
		r.policy.Continue = &policy.Decision{Verdict: policy.Hold, Reason: "OwnPartition"}
		r.rest(time.Hour)
		assert.Empty(t, r.plugs["b"].commands)
		assert.Equal(t, "OwnPartition", r.status().Hold.Reason)
	})
	t.Run("may end the fence", func(t *testing.T) {
		r := newRig(t, bmc())
		r.policy.Admit = &policy.Decision{Verdict: policy.Deny, Reason: "Excluded"}
		r.phase(v1alpha1.PhaseGivenUp)
		assert.Empty(t, r.plugs["bmc"].commands)
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
		r := newRig(t, plan(false))
		r.phase(v1alpha1.PhaseFinal)
		assert.Equal(t,
			[]string{
				nodeplan.MarkUnschedulable, "clean-pods", "detach-volumes", "attach", "tell",
				nodeplan.MarkSchedulable,
			}, r.methods)
		assert.False(t, r.status().Taints.Fence)
	})
	t.Run("are tried again from the first, three times", func(t *testing.T) {
		r := newRig(t, plan(false))
		r.failing["detach-volumes"] = 2
		r.phase(v1alpha1.PhaseIsolated)
		assert.Len(t, r.methods, 9)
		r = newRig(t, plan(false))
		r.failing["detach-volumes"] = 3
		r.until(statemachine.IsolationFailed)
		assert.Equal(t, v1alpha1.StepIsolation, r.status().Step)
		assert.Equal(t, v1alpha1.StageError, r.status().Status)
	})
	t.Run("may fail if they need not succeed", func(t *testing.T) {
		r := newRig(t, plan(true))
		r.failing["clean-pods"] = 3
		r.phase(v1alpha1.PhaseIsolated)
		assert.Equal(t, []string{nodeplan.MarkUnschedulable, "clean-pods", "detach-volumes"}, r.methods)
	})
	t.Run("of the recovery that fail are an error, and tried again", func(t *testing.T) {
		r := newRig(t, plan(false))
		r.failing["attach"] = 3
		r.until(statemachine.RecoveryFailed)
		assert.Equal(t, v1alpha1.StepRecovery, r.status().Step)
		r.phase(v1alpha1.PhaseFinal)
		assert.Equal(t, []agent.Action{off, on}, r.plugs["bmc"].commands)
	})
	t.Run("leave the taint if somebody else removes it", func(t *testing.T) {
		p := bmc()
		p.Recovery = nodeplan.Level{{Name: nodeplan.MarkUnschedulable}}
		r := newRig(t, p)
		r.phase(v1alpha1.PhaseFinal)
		assert.NotContains(t, r.methods, nodeplan.MarkSchedulable)
		assert.True(t, r.status().Taints.Fence)
	})
}

func TestOptionalDeviceOfTheIsolation(t *testing.T) {
	p := storage()
	p.Isolation[0].MustSucceed = false
	r := newRig(t, p)
	r.plugs["port"].silent, r.plugs["port"].deaf = true, true
	r.phase(v1alpha1.PhaseIsolated)
	assert.Empty(t, r.status().StorageReleased)
	p.Isolation[0].MustSucceed = true
	r = newRig(t, p)
	r.plugs["port"].silent, r.plugs["port"].deaf = true, true
	r.until(statemachine.IsolationFailed)
}

func TestWithoutDevicesAHumanIsNeeded(t *testing.T) {
	r := newRig(t, nodeplan.Defaults())
	r.rest(time.Hour)
	assert.Equal(t, "NoPowerDevice", r.status().Hold.Reason)
	r.annotate(v1alpha1.AnnotationConfirmOff, "1")
	r.until(statemachine.WorkloadsFreed)
}

func TestWithoutAPlanTheFenceStands(t *testing.T) {
	for _, phase := range []v1alpha1.Phase{
		v1alpha1.PhaseDetected, v1alpha1.PhaseIsolating, v1alpha1.PhaseIsolated,
		v1alpha1.PhasePowering, v1alpha1.PhaseVerifying, v1alpha1.PhaseReleasing, v1alpha1.PhaseRestoring,
		v1alpha1.PhaseRecovering,
	} {
		t.Run(string(phase), func(t *testing.T) {
			r := newRig(t, storage())
			r.phase(phase)
			r.plan, r.unresolved = nodeplan.Defaults(), "the object is gone"
			r.rest(10 * time.Minute)
			assert.Equal(t, phase, r.status().Phase)
			assert.Equal(t, "NotConfigured", r.status().Hold.Reason)
			assert.Equal(t, "the object is gone", r.status().Hold.Message)
			r.plan, r.unresolved = storage(), ""
			r.phase(v1alpha1.PhaseFinal)
			assert.Equal(t, []string{nodeplan.MarkUnschedulable, nodeplan.MarkSchedulable}, r.methods)
		})
	}
}

func TestPowerThatStaysOff(t *testing.T) {
	plan := bmc()
	plan.PowerOn = nodeplan.Never
	r := newRig(t, plan)
	r.phase(v1alpha1.PhaseGivenUp)
	assert.Equal(t, []agent.Action{off}, r.plugs["bmc"].commands)
	assert.Equal(t, v1alpha1.ReleasedDone, r.status().Released)
	assertCondition(t, r, v1alpha1.ConditionPoweredOff, "True")

	plan.PowerManagement[0] = append(plan.PowerManagement[0], nodeplan.Method{Name: nodeplan.DeleteNode})
	r = newRig(t, plan)
	r.failing[nodeplan.DeleteNode] = 1
	r.until(statemachine.NodeRemoved)
	assert.Equal(t, v1alpha1.PhaseFinal, r.status().Phase)
	assert.Equal(t, []string{nodeplan.MarkUnschedulable, nodeplan.DeleteNode, nodeplan.DeleteNode},
		r.methods)
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
			r := newRig(t, plan)
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
	r := newRig(t, bmc())
	r.boots = false
	r.phase(v1alpha1.PhaseGivenUp)
	r.back()
	r.phase(v1alpha1.PhaseFinal)
}

func TestPhaseOfALaterVersionIsLeftAlone(t *testing.T) {
	r := newRig(t, bmc())
	r.phase(v1alpha1.PhaseIsolated)
	r.status().Phase = "Migrating"
	assert.Equal(t, statemachine.Wait{Why: `the phase "Migrating" is not known to this version`}, r.step())
}

func TestTransitionChangesNothing(t *testing.T) {
	r := newRig(t, storage())
	for r.status().Phase != v1alpha1.PhaseFinal {
		before, memory := r.fence.DeepCopy(), r.memory
		first := r.decide()
		require.Equal(t, before, r.fence)
		require.Equal(t, memory, r.memory)
		require.Equal(t, first, r.decide())
		r.step()
	}
}

func TestRecordsBelongToTheStepsOfTheProposal(t *testing.T) {
	r := newRig(t, bmc())
	r.boots = false
	for r.status().Phase != v1alpha1.PhaseGivenUp {
		r.step()
		if r.status().Phase != "" {
			_, err := proposal.Automaton(r.status().Step, r.status().Status)
			require.NoError(t, err)
		}
	}
}
