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

func assertCondition(t *testing.T, r *cluster, kind string, want metav1.ConditionStatus) {
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
			c := newCluster(t, bmc())
			c.plugs["bmc"].delay = 20 * time.Second
			next[statemachine.Call](c)
			c.annotate(v1alpha1.AnnotationStop, value)
			for c.status().Phase != want.phase {
				c.step()
				if c.status().Phase != want.phase {
					assertCondition(t, c, v1alpha1.ConditionStopped, "False")
				}
			}
			assert.Equal(t, want.commands, c.plugs["bmc"].commands)
			assertCondition(t, c, v1alpha1.ConditionStopped, "True")
			assertCondition(t, c, v1alpha1.ConditionPoweredOff, want.off)
			assert.Empty(t, c.status().Released)
		})
	}
}

func TestStopThatNeverBootsEnds(t *testing.T) {
	c := newCluster(t, bmc())
	c.boots = false
	next[statemachine.Call](c)
	c.annotate(v1alpha1.AnnotationStop, "restore")
	c.phase(v1alpha1.PhaseGivenUp)
	assertCondition(t, c, v1alpha1.ConditionStopped, "True")
	assert.Zero(t, c.status().Restarts)
}

func TestStopAnnotationFalseDoesNotStop(t *testing.T) {
	c := newCluster(t, bmc())
	c.annotate(v1alpha1.AnnotationStop, "false")
	c.phase(v1alpha1.PhaseIsolated)
}

func TestPauseFollowsUpWhatWasSentAndDoesNothingMore(t *testing.T) {
	c := newCluster(t, bmc())
	next[statemachine.Call](c)
	c.annotate(v1alpha1.AnnotationPaused, "true")
	c.until(statemachine.OffSeen)
	assertCondition(t, c, v1alpha1.ConditionPaused, "True")
	c.rest(time.Hour)
	assert.Equal(t, v1alpha1.PhasePowering, c.status().Phase)
	delete(c.fence.Annotations, v1alpha1.AnnotationPaused)
	c.until(statemachine.Resumed)
	assertCondition(t, c, v1alpha1.ConditionPaused, "False")
	c.phase(v1alpha1.PhaseFinal)
	assert.Equal(t, []agent.Action{off, on}, c.plugs["bmc"].commands)
}

func TestPauseTakesTheTaintFromTheNodeAndPutsItBack(t *testing.T) {
	c := newCluster(t, bmc())
	c.volumes = 1000
	c.until(statemachine.PodsDeleted)
	require.Equal(t, v1alpha1.TaintOurs, c.node.OutOfService)
	c.annotate(v1alpha1.AnnotationPaused, "true")
	c.rest(2 * time.Minute)
	assert.Equal(t, v1alpha1.TaintNone, c.node.OutOfService)
	assert.Equal(t, v1alpha1.PhaseReleasing, c.status().Phase)
	delete(c.fence.Annotations, v1alpha1.AnnotationPaused)
	part(c, statemachine.Taint)
	assert.Equal(t, v1alpha1.TaintOurs, c.node.OutOfService)
	back := c.elapsed()
	part(c, statemachine.Untaint)
	assert.GreaterOrEqual(t, c.elapsed()-back, time.Minute, "volumes are waited for again")
}

func TestConfirmationIsBelieved(t *testing.T) {
	confirmed := metav1.NewTime(epoch.Add(time.Minute))
	for _, phase := range []v1alpha1.Phase{
		v1alpha1.PhaseDetected, v1alpha1.PhaseIsolated, v1alpha1.PhasePowering,
		v1alpha1.PhaseVerifying, v1alpha1.PhaseError, v1alpha1.PhaseGivenUp,
	} {
		t.Run(string(phase), func(t *testing.T) {
			c := newCluster(t, bmc())
			c.boots = false
			c.plugs["bmc"].silent, c.plugs["bmc"].deaf = phase != v1alpha1.PhaseVerifying,
				phase != v1alpha1.PhaseVerifying
			c.phase(phase)
			c.annotate(v1alpha1.AnnotationConfirmOff, "1")
			c.fence.ManagedFields = []metav1.ManagedFieldsEntry{
				{Manager: "bellwether", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)},
				{
					Manager: "kubectl-annotate", Time: &confirmed,
					FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:fencing.bellwether.dev/` +
						`confirm-off":{}}}}`),
				},
			}
			c.until(statemachine.Confirmed)
			e := c.status().Evidence[len(c.status().Evidence)-1]
			assert.Equal(t, v1alpha1.Evidence{
				Device: "n", Source: v1alpha1.SourceManual, By: "kubectl-annotate",
				Readings: []v1alpha1.Reading{{Power: agent.PowerOff, At: metav1.NewMicroTime(confirmed.Time)}},
			}, e)
			c.until(statemachine.WorkloadsFreed)
			assert.NotContains(t, c.transcript(), "refused")
		})
	}
}

func TestConfirmationIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*cluster)
		why    string
	}{
		"a device reads on": {func(c *cluster) { c.phase(v1alpha1.PhasePowering) }, "a device reads on"},
		"the node is Ready": {func(c *cluster) {
			c.phase(v1alpha1.PhasePowering)
			c.plugs["bmc"].silent = true
			c.node.Ready = true
		}, "the node is Ready"},
		"the node is gone": {func(c *cluster) {
			c.phase(v1alpha1.PhasePowering)
			c.plugs["bmc"].silent = true
			c.node.Missing = true
		}, "the node is gone"},
		"the machine is switched on": {
			func(c *cluster) { c.phase(v1alpha1.PhaseRestoring) },
			"in the phase Restoring the machine's power is not asked for",
		},
		"it has long booted": {
			func(c *cluster) { c.phase(v1alpha1.PhaseBooting) },
			"in the phase Booting the machine's power is not asked for",
		},
		"the fence was stopped": {func(c *cluster) {
			c.phase(v1alpha1.PhasePowering)
			c.annotate(v1alpha1.AnnotationStop, "hold")
			c.phase(v1alpha1.PhaseGivenUp)
		}, "this fence has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newCluster(t, bmc())
			c.before(r)
			r.annotate(v1alpha1.AnnotationConfirmOff, "1")
			drop := next[statemachine.DropAnnotation](r)
			assert.Equal(t, statemachine.DropAnnotation{Key: v1alpha1.AnnotationConfirmOff, Why: c.why}, drop)
		})
	}
}

func TestConfirmationOfAnotherIncidentIsIgnored(t *testing.T) {
	c := newCluster(t, bmc())
	c.phase(v1alpha1.PhasePowering)
	c.annotate(v1alpha1.AnnotationConfirmOff, "2")
	c.phase(v1alpha1.PhaseFinal)
	assert.NotContains(t, c.transcript(), "Confirmed")
	assert.NotContains(t, c.transcript(), "refused")
}

func TestReadingOnStopsAReleaseThatWasConfirmed(t *testing.T) {
	c := newCluster(t, bmc())
	c.plugs["bmc"].silent = true
	c.phase(v1alpha1.PhasePowering)
	c.annotate(v1alpha1.AnnotationConfirmOff, "1")
	c.until(statemachine.ReleaseBegun)
	c.plugs["bmc"].silent = false
	c.until(statemachine.Contradicted)
	assert.NotContains(t, c.transcript(), "DeletePods")
}

func TestRecordThatIsDeletedIsRestoredFirst(t *testing.T) {
	c := newCluster(t, bmc())
	c.until(statemachine.Verified)
	now := metav1.NewTime(c.now.Wall)
	c.fence.DeletionTimestamp = &now
	require.Equal(t, []string{v1alpha1.Finalizer}, c.fence.Finalizers)
	c.phase(v1alpha1.PhaseFinal)
	assert.True(t, c.plugs["bmc"].on)
	assert.NotContains(t, c.transcript(), "DeletePods")
	assertCondition(t, c, v1alpha1.ConditionStopped, "True")
	c.step()
	assert.Empty(t, c.fence.Finalizers)
	assert.Equal(t, statemachine.Wait{Why: "the record is being deleted"}, c.step())
}

func TestRecordOfANodeThatIsGoneCanBeDeleted(t *testing.T) {
	c := newCluster(t, bmc())
	c.phase(v1alpha1.PhaseIsolated)
	c.node.Missing = true
	c.phase(v1alpha1.PhaseGivenUp)
	assert.Equal(t, v1alpha1.AbortNodeGone, c.status().Abort)
	c.step()
	assert.Empty(t, c.fence.Finalizers)
}

func TestRecordIsForgottenAfterADay(t *testing.T) {
	for name, end := range map[string]func(*cluster){
		"final":                   func(c *cluster) { c.phase(v1alpha1.PhaseFinal) },
		"given up, the node gone": func(c *cluster) { c.node.Missing = true; c.phase(v1alpha1.PhaseGivenUp) },
		"released, its plug off, the node removed": func(c *cluster) {
			c.plan.PowerOn = nodeplan.Never
			c.phase(v1alpha1.PhaseGivenUp)
			c.node.Missing = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, bmc())
			c.until(statemachine.Begun)
			end(c)
			ended := c.elapsed()
			c.rest(25 * time.Hour)
			assert.True(t, c.deleted)
			assert.InDelta(t, 24*time.Hour, c.elapsed()-ended, float64(2*time.Minute))
		})
	}
	t.Run("but not while a plug is off", func(t *testing.T) {
		plan := bmc()
		plan.PowerOn = nodeplan.Manual
		c := newCluster(t, plan)
		c.phase(v1alpha1.PhaseGivenUp)
		c.rest(30 * time.Hour)
		assert.False(t, c.deleted)
	})
	t.Run("nor if it was not released", func(t *testing.T) {
		plan := bmc()
		plan.PowerOn = nodeplan.Never
		c := newCluster(t, plan)
		c.until(statemachine.OffSeen)
		c.node.Missing = true
		c.phase(v1alpha1.PhaseGivenUp)
		c.rest(30 * time.Hour)
		assert.False(t, c.deleted)
	})
}

func TestNodeThatFailsAgainGetsItsNextIncident(t *testing.T) {
	c := newCluster(t, bmc())
	c.phase(v1alpha1.PhaseFinal)
	c.node.Ready, c.node.Failing, c.renews, c.bootsAt = false, true, false, time.Hour*1000
	c.trigger = &v1alpha1.Trigger{Type: "Ready", Status: "False"}
	c.annotate(v1alpha1.AnnotationStop, "hold")
	c.rest(time.Hour)
	require.Equal(t, v1alpha1.PhaseFinal, c.status().Phase, "an admin's stop stands")
	delete(c.fence.Annotations, v1alpha1.AnnotationStop)
	c.until(statemachine.IncidentReopened)
	s := c.status()
	assert.EqualValues(t, 2, s.Incident)
	assert.Equal(t, []v1alpha1.Trigger{*c.trigger}, s.Triggers)
	assert.Equal(t, []string{"incident 1: Final until 2026-01-02T04:11:17Z, released: Done; bmc On"}, s.History)
	assert.EqualValues(t, 1, s.Problems.Count, "more than an hour later")
	assert.Empty(t, s.Devices)
	assert.Empty(t, s.Evidence)
	c.until(statemachine.OffIntent)
	assert.Equal(t, []string{"fence-c0ffee0012-2-1"}, s.Jobs)
}

func TestHumanRestartsAFenceThatWasGivenUp(t *testing.T) {
	c := newCluster(t, bmc())
	c.plugs["bmc"].deaf, c.boots = true, false
	c.phase(v1alpha1.PhaseGivenUp)
	c.annotate(v1alpha1.AnnotationRestart, "2")
	c.rest(time.Hour)
	require.Equal(t, v1alpha1.PhaseGivenUp, c.status().Phase, "of another incident")
	c.plugs["bmc"].deaf, c.boots = false, true
	c.annotate(v1alpha1.AnnotationRestart, "1")
	c.phase(v1alpha1.PhaseFinal)
	assert.EqualValues(t, 2, c.status().Incident)
}

// A fence that the policy holds can be restarted; one that continues in its incident cannot.
func TestHumanRestartsAFenceThatIsHeld(t *testing.T) {
	c := newCluster(t, bmc())
	c.policy.Admit = &policy.Decision{Verdict: policy.Hold, Reason: "Repeats"}
	c.until(statemachine.Held)
	c.annotate(v1alpha1.AnnotationRestart, "1")
	c.until(statemachine.IncidentReopened)
	assert.EqualValues(t, 2, c.status().Incident)
	c.rest(time.Hour)
	assert.EqualValues(t, 2, c.status().Incident, "a number counts once")

	c = newCluster(t, bmc())
	c.phase(v1alpha1.PhasePowering)
	c.annotate(v1alpha1.AnnotationRestart, "1")
	c.phase(v1alpha1.PhaseBooting)
	assert.EqualValues(t, 1, c.status().Incident)
}

func TestFurtherConditionJoinsTheFence(t *testing.T) {
	c := newCluster(t, bmc())
	c.phase(v1alpha1.PhaseIsolated)
	c.trigger = &v1alpha1.Trigger{Type: "KernelDeadlock", Status: "True"}
	c.until(statemachine.TriggerJoined)
	assert.Len(t, c.status().Triggers, 2)
	c.phase(v1alpha1.PhasePowering)
	assert.Len(t, c.status().Triggers, 2)
}
