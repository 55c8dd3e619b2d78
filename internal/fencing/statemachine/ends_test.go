package statemachine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

// What was given up is over: the node is fenced for whatever comes next.
func TestFenceThatWasGivenUpDoesNotShadowTheNext(t *testing.T) {
	lost := &v1alpha1.Trigger{Type: "Ready", Status: "Unknown"}
	gaveUp := func(t *testing.T) *rig {
		t.Helper()
		r := newRig(t, bmc())
		r.boots = false
		r.plugs["bmc"].deaf = true
		r.phase(v1alpha1.PhaseGivenUp)
		r.plugs["bmc"].deaf = false
		return r
	}
	for name, c := range map[string]struct {
		end  func(t *testing.T) *rig
		then func(r *rig)
	}{
		"another Node has its name": {gaveUp, func(r *rig) { r.node.UID = "other" }},
		"the autoscaler has changed its mind": {func(t *testing.T) *rig {
			t.Helper()
			r := newRig(t, bmc())
			r.phase(v1alpha1.PhaseIsolated)
			r.node.Leaving = true
			r.phase(v1alpha1.PhaseGivenUp)
			return r
		}, func(r *rig) { r.node.Leaving = false }},
		"the admin does not exclude it any more": {func(t *testing.T) *rig {
			t.Helper()
			r := newRig(t, bmc())
			r.policy.Admit = &policy.Decision{
				Verdict: policy.Deny, Reason: "Excluded",
				Message: "node n is excluded",
			}
			r.phase(v1alpha1.PhaseGivenUp)
			return r
		}, func(r *rig) { r.policy = statemachine.Policy{} }},
		"a stop, and then it has worked": {func(t *testing.T) *rig {
			t.Helper()
			r := newRig(t, bmc())
			r.boots = false
			r.phase(v1alpha1.PhaseIsolated)
			r.annotate(v1alpha1.AnnotationStop, "hold")
			r.phase(v1alpha1.PhaseGivenUp)
			delete(r.fence.Annotations, v1alpha1.AnnotationStop)
			return r
		}, func(r *rig) {
			r.back()
			r.rest(time.Minute)
			r.node.Ready, r.node.Failing, r.renews = false, true, false
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.end(t)
			r.rest(time.Hour)
			assert.Equal(t, v1alpha1.PhaseGivenUp, r.status().Phase, "as long as it is the same")
			c.then(r)
			r.trigger = lost
			r.until(statemachine.IncidentReopened)
			assert.EqualValues(t, 2, r.status().Incident)
			assert.False(t, meta.IsStatusConditionTrue(r.status().Conditions, v1alpha1.ConditionDenied))
			r.boots = true
			r.until(statemachine.WorkloadsFreed)
		})
	}
}

func TestFenceThatWasGivenUpStaysSoWhileNothingHasChanged(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"nothing": func(*rig) {},
		"the stop is there still": func(r *rig) {
			r.node.UID = "other"
			r.annotate(v1alpha1.AnnotationStop, "hold")
		},
		"the node is shown Ready": func(r *rig) {
			r.node.UID = "other"
			r.node.Ready, r.node.Failing = true, false
		},
		"another, about to be removed": func(r *rig) { r.node.UID = "other"; r.node.Leaving = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, bmc())
			r.boots = false
			r.plugs["bmc"].deaf = true
			r.phase(v1alpha1.PhaseGivenUp)
			change(r)
			r.trigger = &v1alpha1.Trigger{Type: "Ready", Status: "Unknown"}
			r.rest(3 * time.Hour)
			assert.Equal(t, v1alpha1.PhaseGivenUp, r.status().Phase)
			assert.EqualValues(t, 1, r.status().Incident)
		})
	}
}

// A device did not answer when power was to come back, and was left. The machine has its power, and
// when the device answers, its node gets rid of the taint.
func TestNodeThatWorksIsRecoveredWhenItsDeviceAnswersAgain(t *testing.T) {
	r := newRig(t, bmc())
	r.boots = false
	r.until(statemachine.WorkloadsFreed)
	r.plugs["bmc"].silent = true
	r.phase(v1alpha1.PhaseGivenUp)
	r.plugs["bmc"].on = true
	r.back()
	r.rest(time.Hour)
	assert.Equal(t, v1alpha1.PhaseGivenUp, r.status().Phase)
	assert.NotContains(t, r.methods, nodeplan.MarkSchedulable)
	r.plugs["bmc"].silent = false
	r.rest(3 * time.Minute)
	assert.Equal(t, v1alpha1.PhaseFinal, r.status().Phase)
	assert.Contains(t, r.methods, nodeplan.MarkSchedulable)
}

// An autoscaler marks a node in the middle of its fence, changes its mind, and the node works: it gets
// rid of the taint. If its plug was left off, that is when a human has switched it on.
func TestNodeThatIsNotRemovedAfterAllIsRecovered(t *testing.T) {
	for name, begin := range map[string]func(*rig){
		"nothing was switched": func(r *rig) { r.phase(v1alpha1.PhaseIsolated) },
		"its plug was":         func(r *rig) { r.until(statemachine.AllOff) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, bmc())
			r.boots = false
			begin(r)
			offs := len(r.plugs["bmc"].commands)
			r.node.Leaving = true
			r.phase(v1alpha1.PhaseGivenUp)
			r.rest(10 * time.Minute)
			r.node.Leaving = false
			r.plugs["bmc"].on = true
			r.back()
			r.rest(3 * time.Minute)
			assert.Equal(t, v1alpha1.PhaseFinal, r.status().Phase)
			assert.Contains(t, r.methods, nodeplan.MarkSchedulable)
			assert.False(t, r.status().Taints.Fence)
			assert.Len(t, r.plugs["bmc"].commands, offs)
		})
	}
}

func TestHoldIsCurrent(t *testing.T) {
	r := newRig(t, bmc())
	held := func() (writes int) {
		for _, step := range r.steps {
			if w, ok := step.(statemachine.Write); ok && w.Reason == statemachine.Held {
				writes++
			}
		}
		return writes
	}
	hold := func(message string) {
		r.policy.Admit = &policy.Decision{Verdict: policy.Hold, Reason: "NotConfigured", Message: message}
		r.rest(5 * time.Minute)
	}
	hold("device bmc: no answer for 10s")
	hold("device bmc: no answer for 20s")
	assert.Equal(t, 1, held(), "numbers change all the time")
	since := r.status().Hold.Since
	hold("device bmc: wrong password")
	assert.Equal(t, "device bmc: wrong password", r.status().Hold.Message)
	assert.Equal(t, since, r.status().Hold.Since, "for as long as the reason is the same")
	assert.Equal(t, 2, held())
	began := r.elapsed()
	for i := range 60 { // one that changes all the time is not written all the time
		r.policy.Admit.Message = "device bmc: " + []string{"no answer", "wrong password"}[i%2]
		r.rest(5 * time.Second)
	}
	assert.LessOrEqual(t, held()-2, 1+int((r.elapsed()-began)/time.Minute))
}

// A process that does not get on says so once, and goes on.
func TestTroubleIsSaidOnce(t *testing.T) {
	r := newRig(t, bmc())
	r.until(statemachine.Verified)
	in := statemachine.Input{
		Fence: r.fence, Plan: r.plan, Memory: r.memory, Now: r.now,
		Trouble: statemachine.Trouble{Reason: "ProofTooOld", Message: "slow"},
	}
	write, ok := statemachine.Transition(in).(statemachine.Write)
	require.True(t, ok)
	assert.Equal(t, statemachine.Held, write.Reason)
	assert.Equal(t, "ProofTooOld", write.Status.Hold.Reason)
	assert.Equal(t, v1alpha1.PhaseReleasing, write.Status.Phase)
	r.fence.Status = write.Status
	assert.NotEqual(t, statemachine.Held, reasonOf(statemachine.Transition(in)))
	in.Trouble.Reason = "StepFails"
	write, ok = statemachine.Transition(in).(statemachine.Write)
	require.True(t, ok, "another one is said, too")
	assert.Equal(t, statemachine.Held, write.Reason)
	assert.Equal(t, "StepFails", write.Status.Hold.Reason)
	assert.Equal(t, v1alpha1.PhaseReleasing, write.Status.Phase)
	r.fence.Status = write.Status
	assert.NotEqual(t, statemachine.Held, reasonOf(statemachine.Transition(in)))
	r.until(statemachine.WorkloadsFreed)
	assert.Nil(t, r.status().Hold)
}

// What it would wait for otherwise is not said in its place, and both in turn for ever.
func TestTroubleIsSaidUntilItIsOver(t *testing.T) {
	r := newRig(t, bmc())
	r.phase(v1alpha1.PhaseIsolated)
	r.status().Hold = &v1alpha1.Hold{Reason: "StepFails"}
	r.pass(10 * time.Minute)
	in := statemachine.Input{
		Fence: r.fence, Plan: r.plan, Memory: r.memory, Now: r.now,
		Policy:  statemachine.Policy{Admit: &policy.Decision{Verdict: policy.Hold, Reason: "Queue"}},
		Trouble: statemachine.Trouble{Reason: "StepFails"},
	}
	for _, is := r.decide().(statemachine.Look); is; _, is = r.decide().(statemachine.Look) {
		r.step()
	}
	in.Memory, in.Now = r.memory, r.now
	assert.IsType(t, statemachine.Wait{}, statemachine.Transition(in))
	in.Trouble = statemachine.Trouble{}
	assert.Equal(t, statemachine.Held, reasonOf(statemachine.Transition(in)))
}

func reasonOf(step statemachine.Step) statemachine.Reason {
	write, _ := step.(statemachine.Write)
	return write.Reason
}
