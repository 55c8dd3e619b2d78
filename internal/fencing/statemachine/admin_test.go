package statemachine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

func assertCondition(t *testing.T, r *rig, kind string, want metav1.ConditionStatus) {
	t.Helper()
	c := meta.FindStatusCondition(r.status().Conditions, kind)
	require.NotNil(t, c, kind)
	assert.Equal(t, want, c.Status, c)
}

func TestStopIsAcknowledgedWhenNothingCanLandAnyMore(t *testing.T) {
	for value, want := range map[string]struct {
		phase    v1alpha1.Phase
		commands []agent.Action
		off      metav1.ConditionStatus
	}{
		"hold":    {v1alpha1.PhaseGivenUp, []agent.Action{off}, "True"},
		"true":    {v1alpha1.PhaseGivenUp, []agent.Action{off}, "True"},
		"yes":     {v1alpha1.PhaseGivenUp, []agent.Action{off}, "True"}, // not known: what does least
		"restore": {v1alpha1.PhaseFinal, []agent.Action{off, on}, "False"},
	} {
		t.Run(value, func(t *testing.T) {
			r := newRig(t, bmc())
			r.plugs["bmc"].delay = 20 * time.Second
			next[statemachine.Call](r)
			r.annotate(v1alpha1.AnnotationStop, value)
			for r.status().Phase != want.phase {
				r.step()
				if r.status().Phase != want.phase {
					assertCondition(t, r, v1alpha1.ConditionStopped, "False")
				}
			}
			assert.Equal(t, want.commands, r.plugs["bmc"].commands)
			assertCondition(t, r, v1alpha1.ConditionStopped, "True")
			assertCondition(t, r, v1alpha1.ConditionPoweredOff, want.off)
			assert.Empty(t, r.status().Released)
		})
	}
}

func TestStopThatNeverBootsEnds(t *testing.T) {
	r := newRig(t, bmc())
	r.boots = false
	next[statemachine.Call](r)
	r.annotate(v1alpha1.AnnotationStop, "restore")
	r.phase(v1alpha1.PhaseGivenUp)
	assertCondition(t, r, v1alpha1.ConditionStopped, "True")
	assert.Zero(t, r.status().Restarts)
}

func TestStopAnnotationFalseDoesNotStop(t *testing.T) {
	r := newRig(t, bmc())
	r.annotate(v1alpha1.AnnotationStop, "false")
	r.phase(v1alpha1.PhaseIsolated)
}

func TestPauseFollowsUpWhatWasSentAndDoesNothingMore(t *testing.T) {
	r := newRig(t, bmc())
	next[statemachine.Call](r)
	r.annotate(v1alpha1.AnnotationPaused, "true")
	r.until(statemachine.OffSeen)
	assertCondition(t, r, v1alpha1.ConditionPaused, "True")
	r.rest(time.Hour)
	assert.Equal(t, v1alpha1.PhasePowering, r.status().Phase)
	delete(r.fence.Annotations, v1alpha1.AnnotationPaused)
	r.until(statemachine.Resumed)
	assertCondition(t, r, v1alpha1.ConditionPaused, "False")
	r.phase(v1alpha1.PhaseFinal)
	assert.Equal(t, []agent.Action{off, on}, r.plugs["bmc"].commands)
}

func TestPauseTakesTheTaintFromTheNodeAndPutsItBack(t *testing.T) {
	r := newRig(t, bmc())
	r.volumes = 1000
	r.until(statemachine.PodsDeleted)
	require.Equal(t, v1alpha1.TaintOurs, r.node.OutOfService)
	r.annotate(v1alpha1.AnnotationPaused, "true")
	r.rest(2 * time.Minute)
	assert.Equal(t, v1alpha1.TaintNone, r.node.OutOfService)
	assert.Equal(t, v1alpha1.PhaseReleasing, r.status().Phase)
	delete(r.fence.Annotations, v1alpha1.AnnotationPaused)
	part(r, statemachine.Taint)
	assert.Equal(t, v1alpha1.TaintOurs, r.node.OutOfService)
	back := r.elapsed()
	part(r, statemachine.Untaint)
	assert.GreaterOrEqual(t, r.elapsed()-back, time.Minute, "volumes are waited for again")
}

func TestConfirmationIsBelieved(t *testing.T) {
	confirmed := metav1.NewTime(epoch.Add(time.Minute))
	for _, phase := range []v1alpha1.Phase{
		v1alpha1.PhaseDetected, v1alpha1.PhaseIsolated, v1alpha1.PhasePowering,
		v1alpha1.PhaseVerifying, v1alpha1.PhaseError, v1alpha1.PhaseGivenUp,
	} {
		t.Run(string(phase), func(t *testing.T) {
			r := newRig(t, bmc())
			r.boots = false
			r.plugs["bmc"].silent, r.plugs["bmc"].deaf = phase != v1alpha1.PhaseVerifying,
				phase != v1alpha1.PhaseVerifying
			r.phase(phase)
			r.annotate(v1alpha1.AnnotationConfirmOff, "1")
			r.fence.ManagedFields = []metav1.ManagedFieldsEntry{
				{Manager: "bellwether", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)},
				{
					Manager: "kubectl-annotate", Time: &confirmed,
					FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:fencing.bellwether.dev/` +
						`confirm-off":{}}}}`),
				},
			}
			r.until(statemachine.Confirmed)
			e := r.status().Evidence[len(r.status().Evidence)-1]
			assert.Equal(t, v1alpha1.Evidence{
				Device: "n", Source: v1alpha1.SourceManual, By: "kubectl-annotate",
				Readings: []v1alpha1.Reading{{Power: agent.PowerOff, At: metav1.NewMicroTime(confirmed.Time)}},
			}, e)
			r.until(statemachine.WorkloadsFreed)
			assert.NotContains(t, r.transcript(), "refused")
		})
	}
}

func TestConfirmationIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*rig)
		why    string
	}{
		"a device reads on": {func(r *rig) { r.phase(v1alpha1.PhasePowering) }, "a device reads on"},
		"the node is Ready": {func(r *rig) {
			r.phase(v1alpha1.PhasePowering)
			r.plugs["bmc"].silent = true
			r.node.Ready = true
		}, "the node is Ready"},
		"the node is gone": {func(r *rig) {
			r.phase(v1alpha1.PhasePowering)
			r.plugs["bmc"].silent = true
			r.node.Missing = true
		}, "the node is gone"},
		"the machine is switched on": {
			func(r *rig) { r.phase(v1alpha1.PhaseRestoring) },
			"in the phase Restoring the machine's power is not asked for",
		},
		"it has long booted": {
			func(r *rig) { r.phase(v1alpha1.PhaseBooting) },
			"in the phase Booting the machine's power is not asked for",
		},
		"the fence was stopped": {func(r *rig) {
			r.phase(v1alpha1.PhasePowering)
			r.annotate(v1alpha1.AnnotationStop, "hold")
			r.phase(v1alpha1.PhaseGivenUp)
		}, "this fence has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, bmc())
			c.before(r)
			r.annotate(v1alpha1.AnnotationConfirmOff, "1")
			drop := next[statemachine.DropAnnotation](r)
			assert.Equal(t, statemachine.DropAnnotation{Key: v1alpha1.AnnotationConfirmOff, Why: c.why}, drop)
		})
	}
}

func TestConfirmationOfAnotherIncidentIsIgnored(t *testing.T) {
	r := newRig(t, bmc())
	r.phase(v1alpha1.PhasePowering)
	r.annotate(v1alpha1.AnnotationConfirmOff, "2")
	r.phase(v1alpha1.PhaseFinal)
	assert.NotContains(t, r.transcript(), "Confirmed")
	assert.NotContains(t, r.transcript(), "refused")
}

func TestReadingOnStopsAReleaseThatWasConfirmed(t *testing.T) {
	r := newRig(t, bmc())
	r.plugs["bmc"].silent = true
	r.phase(v1alpha1.PhasePowering)
	r.annotate(v1alpha1.AnnotationConfirmOff, "1")
	r.until(statemachine.ReleaseBegun)
	r.plugs["bmc"].silent = false
	r.until(statemachine.Contradicted)
	assert.NotContains(t, r.transcript(), "DeletePods")
}

func TestRecordThatIsDeletedIsRestoredFirst(t *testing.T) {
	r := newRig(t, bmc())
	r.until(statemachine.Verified)
	now := metav1.NewTime(r.now.Wall)
	r.fence.DeletionTimestamp = &now
	require.Equal(t, []string{v1alpha1.Finalizer}, r.fence.Finalizers)
	r.phase(v1alpha1.PhaseFinal)
	assert.True(t, r.plugs["bmc"].on)
	assert.NotContains(t, r.transcript(), "DeletePods")
	assertCondition(t, r, v1alpha1.ConditionStopped, "True")
	r.step()
	assert.Empty(t, r.fence.Finalizers)
	assert.Equal(t, statemachine.Wait{Why: "the record is being deleted"}, r.step())
}

func TestRecordOfANodeThatIsGoneCanBeDeleted(t *testing.T) {
	r := newRig(t, bmc())
	r.phase(v1alpha1.PhaseIsolated)
	r.node.Missing = true
	r.phase(v1alpha1.PhaseGivenUp)
	assert.Equal(t, v1alpha1.AbortNodeGone, r.status().Abort)
	r.step()
	assert.Empty(t, r.fence.Finalizers)
}

func TestRecordIsForgottenAfterADay(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"final":                   func(r *rig) { r.phase(v1alpha1.PhaseFinal) },
		"given up, the node gone": func(r *rig) { r.node.Missing = true; r.phase(v1alpha1.PhaseGivenUp) },
		"released, its plug off, the node removed": func(r *rig) {
			r.plan.PowerOn = nodeplan.Never
			r.phase(v1alpha1.PhaseGivenUp)
			r.node.Missing = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, bmc())
			r.until(statemachine.Begun)
			end(r)
			ended := r.elapsed()
			r.rest(25 * time.Hour)
			assert.True(t, r.deleted)
			assert.InDelta(t, 24*time.Hour, r.elapsed()-ended, float64(2*time.Minute))
		})
	}
	t.Run("but not while a plug is off", func(t *testing.T) {
		plan := bmc()
		plan.PowerOn = nodeplan.Manual
		r := newRig(t, plan)
		r.phase(v1alpha1.PhaseGivenUp)
		r.rest(30 * time.Hour)
		assert.False(t, r.deleted)
	})
	t.Run("nor if it was not released", func(t *testing.T) {
		plan := bmc()
		plan.PowerOn = nodeplan.Never
		r := newRig(t, plan)
		r.until(statemachine.OffSeen)
		r.node.Missing = true
		r.phase(v1alpha1.PhaseGivenUp)
		r.rest(30 * time.Hour)
		assert.False(t, r.deleted)
	})
}

func TestNodeThatFailsAgainGetsItsNextIncident(t *testing.T) {
	r := newRig(t, bmc())
	r.phase(v1alpha1.PhaseFinal)
	r.node.Ready, r.node.Failing, r.renews, r.bootsAt = false, true, false, time.Hour*1000
	r.trigger = &v1alpha1.Trigger{Type: "Ready", Status: "False"}
	r.annotate(v1alpha1.AnnotationStop, "hold")
	r.rest(time.Hour)
	require.Equal(t, v1alpha1.PhaseFinal, r.status().Phase, "an admin's stop stands")
	delete(r.fence.Annotations, v1alpha1.AnnotationStop)
	r.until(statemachine.IncidentReopened)
	s := r.status()
	assert.EqualValues(t, 2, s.Incident)
	assert.Equal(t, []v1alpha1.Trigger{*r.trigger}, s.Triggers)
	assert.Equal(t, []string{"incident 1: Final until 2026-01-02T04:11:17Z, released: Done; bmc On"}, s.History)
	assert.EqualValues(t, 1, s.Problems.Count, "more than an hour later")
	assert.Empty(t, s.Devices)
	assert.Empty(t, s.Evidence)
	r.until(statemachine.OffIntent)
	assert.Equal(t, []string{"fence-c0ffee0012-2-1"}, s.Jobs)
}

func TestHumanRestartsAFenceThatWasGivenUp(t *testing.T) {
	r := newRig(t, bmc())
	r.plugs["bmc"].deaf, r.boots = true, false
	r.phase(v1alpha1.PhaseGivenUp)
	r.annotate(v1alpha1.AnnotationRestart, "2")
	r.rest(time.Hour)
	require.Equal(t, v1alpha1.PhaseGivenUp, r.status().Phase, "of another incident")
	r.plugs["bmc"].deaf, r.boots = false, true
	r.annotate(v1alpha1.AnnotationRestart, "1")
	r.phase(v1alpha1.PhaseFinal)
	assert.EqualValues(t, 2, r.status().Incident)
}

// A fence that the policy holds can be restarted; one that continues in its incident cannot.
func TestHumanRestartsAFenceThatIsHeld(t *testing.T) {
	r := newRig(t, bmc())
	r.policy.Admit = &policy.Decision{Verdict: policy.Hold, Reason: "Repeats"}
	r.until(statemachine.Held)
	r.annotate(v1alpha1.AnnotationRestart, "1")
	r.until(statemachine.IncidentReopened)
	assert.EqualValues(t, 2, r.status().Incident)
	r.rest(time.Hour)
	assert.EqualValues(t, 2, r.status().Incident, "a number counts once")

	r = newRig(t, bmc())
	r.phase(v1alpha1.PhasePowering)
	r.annotate(v1alpha1.AnnotationRestart, "1")
	r.phase(v1alpha1.PhaseBooting)
	assert.EqualValues(t, 1, r.status().Incident)
}

func TestFurtherConditionJoinsTheFence(t *testing.T) {
	r := newRig(t, bmc())
	r.phase(v1alpha1.PhaseIsolated)
	r.trigger = &v1alpha1.Trigger{Type: "KernelDeadlock", Status: "True"}
	r.until(statemachine.TriggerJoined)
	assert.Len(t, r.status().Triggers, 2)
	r.phase(v1alpha1.PhasePowering)
	assert.Len(t, r.status().Triggers, 2)
}
