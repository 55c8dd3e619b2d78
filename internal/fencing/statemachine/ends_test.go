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
	gaveUp := func(t *testing.T) *cluster {
		t.Helper()
		c := newCluster(t, bmc())
		c.boots = false
		c.plugs["bmc"].deaf = true
		c.phase(v1alpha1.PhaseGivenUp)
		c.plugs["bmc"].deaf = false
		return c
	}
	for name, c := range map[string]struct {
		end  func(t *testing.T) *cluster
		then func(c *cluster)
	}{
		"another Node has its name": {gaveUp, func(c *cluster) { c.node.UID = "other" }},
		"the autoscaler has changed its mind": {func(t *testing.T) *cluster {
			t.Helper()
			c := newCluster(t, bmc())
			c.phase(v1alpha1.PhaseIsolated)
			c.node.Leaving = true
			c.phase(v1alpha1.PhaseGivenUp)
			return c
		}, func(c *cluster) { c.node.Leaving = false }},
		"the admin does not exclude it any more": {func(t *testing.T) *cluster {
			t.Helper()
			c := newCluster(t, bmc())
			c.policy.Admit = &policy.Decision{
				Verdict: policy.Deny, Reason: "Excluded",
				Message: "node n is excluded",
			}
			c.phase(v1alpha1.PhaseGivenUp)
			return c
		}, func(c *cluster) { c.policy = statemachine.Policy{} }},
		"a stop, and then it has worked": {func(t *testing.T) *cluster {
			t.Helper()
			c := newCluster(t, bmc())
			c.boots = false
			c.phase(v1alpha1.PhaseIsolated)
			c.annotate(v1alpha1.AnnotationStop, "hold")
			c.phase(v1alpha1.PhaseGivenUp)
			delete(c.fence.Annotations, v1alpha1.AnnotationStop)
			return c
		}, func(c *cluster) {
			c.back()
			c.rest(time.Minute)
			c.node.Ready, c.node.Failing, c.renews = false, true, false
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
	for name, change := range map[string]func(c *cluster){
		"nothing": func(*cluster) {},
		"the stop is there still": func(c *cluster) {
			c.node.UID = "other"
			c.annotate(v1alpha1.AnnotationStop, "hold")
		},
		"the node is shown Ready": func(c *cluster) {
			c.node.UID = "other"
			c.node.Ready, c.node.Failing = true, false
		},
		"another, about to be removed": func(c *cluster) { c.node.UID = "other"; c.node.Leaving = true },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, bmc())
			c.boots = false
			c.plugs["bmc"].deaf = true
			c.phase(v1alpha1.PhaseGivenUp)
			change(c)
			c.trigger = &v1alpha1.Trigger{Type: "Ready", Status: "Unknown"}
			c.rest(3 * time.Hour)
			assert.Equal(t, v1alpha1.PhaseGivenUp, c.status().Phase)
			assert.EqualValues(t, 1, c.status().Incident)
		})
	}
}

// A device did not answer when power was to come back, and was left. The machine has its power, and
// when the device answers, its node gets rid of the taint.
func TestNodeThatWorksIsRecoveredWhenItsDeviceAnswersAgain(t *testing.T) {
	c := newCluster(t, bmc())
	c.boots = false
	c.until(statemachine.WorkloadsFreed)
	c.plugs["bmc"].silent = true
	c.phase(v1alpha1.PhaseGivenUp)
	c.plugs["bmc"].on = true
	c.back()
	c.rest(time.Hour)
	assert.Equal(t, v1alpha1.PhaseGivenUp, c.status().Phase)
	assert.NotContains(t, c.methods, nodeplan.MarkSchedulable)
	c.plugs["bmc"].silent = false
	c.rest(3 * time.Minute)
	assert.Equal(t, v1alpha1.PhaseFinal, c.status().Phase)
	assert.Contains(t, c.methods, nodeplan.MarkSchedulable)
}

// An autoscaler marks a node in the middle of its fence, changes its mind, and the node works: it gets
// rid of the taint. If its plug was left off, that is when a human has switched it on.
func TestNodeThatIsNotRemovedAfterAllIsRecovered(t *testing.T) {
	for name, begin := range map[string]func(*cluster){
		"nothing was switched": func(c *cluster) { c.phase(v1alpha1.PhaseIsolated) },
		"its plug was":         func(c *cluster) { c.until(statemachine.AllOff) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, bmc())
			c.boots = false
			begin(c)
			offs := len(c.plugs["bmc"].commands)
			c.node.Leaving = true
			c.phase(v1alpha1.PhaseGivenUp)
			c.rest(10 * time.Minute)
			c.node.Leaving = false
			c.plugs["bmc"].on = true
			c.back()
			c.rest(3 * time.Minute)
			assert.Equal(t, v1alpha1.PhaseFinal, c.status().Phase)
			assert.Contains(t, c.methods, nodeplan.MarkSchedulable)
			assert.False(t, c.status().Taints.Fence)
			assert.Len(t, c.plugs["bmc"].commands, offs)
		})
	}
}

func TestHoldIsCurrent(t *testing.T) {
	c := newCluster(t, bmc())
	held := func() (writes int) {
		for _, step := range c.steps {
			if w, ok := step.(statemachine.Write); ok && w.Reason == statemachine.Held {
				writes++
			}
		}
		return writes
	}
	hold := func(message string) {
		c.policy.Admit = &policy.Decision{Verdict: policy.Hold, Reason: "NotConfigured", Message: message}
		c.rest(5 * time.Minute)
	}
	hold("device bmc: no answer for 10s")
	hold("device bmc: no answer for 20s")
	assert.Equal(t, 1, held(), "numbers change all the time")
	since := c.status().Hold.Since
	hold("device bmc: wrong password")
	assert.Equal(t, "device bmc: wrong password", c.status().Hold.Message)
	assert.Equal(t, since, c.status().Hold.Since, "for as long as the reason is the same")
	assert.Equal(t, 2, held())
	began := c.elapsed()
	for i := range 60 { // one that changes all the time is not written all the time
		c.policy.Admit.Message = "device bmc: " + []string{"no answer", "wrong password"}[i%2]
		c.rest(5 * time.Second)
	}
	assert.LessOrEqual(t, held()-2, 1+int((c.elapsed()-began)/time.Minute))
}

// A process that does not get on says so once, and goes on.
func TestTroubleIsSaidOnce(t *testing.T) {
	c := newCluster(t, bmc())
	c.until(statemachine.Verified)
	in := statemachine.Input{
		Fence: c.fence, Plan: c.plan, Memory: c.memory, Now: c.now,
		Trouble: statemachine.Trouble{Reason: "ProofTooOld", Message: "slow"},
	}
	write, ok := statemachine.Transition(in).(statemachine.Write)
	require.True(t, ok)
	assert.Equal(t, statemachine.Held, write.Reason)
	assert.Equal(t, "ProofTooOld", write.Status.Hold.Reason)
	assert.Equal(t, v1alpha1.PhaseReleasing, write.Status.Phase)
	c.fence.Status = write.Status
	assert.NotEqual(t, statemachine.Held, reasonOf(statemachine.Transition(in)))
	in.Trouble.Reason = "StepFails"
	write, ok = statemachine.Transition(in).(statemachine.Write)
	require.True(t, ok, "another one is said, too")
	assert.Equal(t, statemachine.Held, write.Reason)
	assert.Equal(t, "StepFails", write.Status.Hold.Reason)
	assert.Equal(t, v1alpha1.PhaseReleasing, write.Status.Phase)
	c.fence.Status = write.Status
	assert.NotEqual(t, statemachine.Held, reasonOf(statemachine.Transition(in)))
	c.until(statemachine.WorkloadsFreed)
	assert.Nil(t, c.status().Hold)
}

// What it would wait for otherwise is not said in its place, and both in turn for ever.
func TestTroubleIsSaidUntilItIsOver(t *testing.T) {
	c := newCluster(t, bmc())
	c.phase(v1alpha1.PhaseIsolated)
	c.status().Hold = &v1alpha1.Hold{Reason: "StepFails"}
	c.pass(10 * time.Minute)
	in := statemachine.Input{
		Fence: c.fence, Plan: c.plan, Memory: c.memory, Now: c.now,
		Policy:  statemachine.Policy{Admit: &policy.Decision{Verdict: policy.Hold, Reason: "Queue"}},
		Trouble: statemachine.Trouble{Reason: "StepFails"},
	}
	for _, is := c.decide().(statemachine.Look); is; _, is = c.decide().(statemachine.Look) {
		c.step()
	}
	in.Memory, in.Now = c.memory, c.now
	assert.IsType(t, statemachine.Wait{}, statemachine.Transition(in))
	in.Trouble = statemachine.Trouble{}
	assert.Equal(t, statemachine.Held, reasonOf(statemachine.Transition(in)))
}

func reasonOf(step statemachine.Step) statemachine.Reason {
	write, _ := step.(statemachine.Write)
	return write.Reason
}
