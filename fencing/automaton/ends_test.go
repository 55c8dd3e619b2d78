package automaton_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bellwether-k8s/bellwether/fencing/automaton"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
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
			r.policy.Admit = automaton.Answer{Verdict: automaton.Deny, Reason: "Excluded", Message: "node n is excluded"}
			r.phase(v1alpha1.PhaseGivenUp)
			return r
		}, func(r *rig) { r.policy = automaton.Policy{} }},
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
			r.until(automaton.IncidentReopened)
			assert.EqualValues(t, 2, r.status().Incident)
			assert.False(t, meta.IsStatusConditionTrue(r.status().Conditions, v1alpha1.ConditionDenied))
			r.boots = true
			r.until(automaton.WorkloadsFreed)
		})
	}
}

func TestFenceThatWasGivenUpStaysSoWhileNothingHasChanged(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"nothing":                      func(*rig) {},
		"the stop is there still":      func(r *rig) { r.node.UID = "other"; r.annotate(v1alpha1.AnnotationStop, "hold") },
		"the node is shown Ready":      func(r *rig) { r.node.UID = "other"; r.node.Ready, r.node.Failing = true, false },
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
