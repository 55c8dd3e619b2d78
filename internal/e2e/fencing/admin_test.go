package fencing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// isolated returns a lab whose machine is lost, and has time to come back.
func isolated(t *testing.T, l *lab) *lab {
	t.Helper()
	l.setting("power_wait=1s", "power_wait=4s")
	l.start()
	l.checked()
	l.lose()
	l.reaches(v1alpha1.PhaseIsolated)
	return l
}

// The command is at the device already.
func TestNodeIsDeletedWhilePowerIsCut(t *testing.T) {
	t.Parallel()
	l := newPaperLab(t)
	l.rack.Break(l.machine, fencingtest.Fault{Late: time.Second})
	isolated(t, l)
	l.eventually("the device was told", func() bool { return l.commands(agent.ActionOff) == 1 })
	l.deleteNode()
	l.reaches(v1alpha1.PhaseGivenUp)
	assert.Zero(t, l.commands(agent.ActionOn), "the machine may be somebody else's")
	assert.Equal(t, 1, l.commands(agent.ActionOff))
	off := false
	for _, c := range l.record().Status.Conditions {
		off = off || c.Type == v1alpha1.ConditionPoweredOff && c.Status == metav1.ConditionTrue
	}
	assert.True(t, off, "the record says that the machine was left off: %+v", l.record().Status.Conditions)
	l.requireDeletable()
}

// What the fence has switched off is on again.
func TestAdminStopsFenceThatHasCutPower(t *testing.T) {
	t.Parallel()
	l := newPaperLab(t)
	l.rack.Break(l.machine, fencingtest.Fault{Late: time.Second, Times: 2}) // a reading and the command
	isolated(t, l)
	l.eventually("the device was told", func() bool { return l.commands(agent.ActionOff) == 1 })
	l.annotate(v1alpha1.AnnotationStop, "restore")
	l.eventually("the fence goes back", func() bool { return l.cuts() == 1 && l.rack.On(l.machine) })
	assert.Equal(t, 1, l.commands(agent.ActionOff))
	assert.Equal(t, 1, l.commands(agent.ActionOn))
}

// The device does nothing. An admin who has pulled the plug says so, and the workloads are freed.
func TestAdminConfirms(t *testing.T) {
	t.Parallel()
	l := newPaperLab(t)
	l.rack.Break(l.machine, fencingtest.Fault{Ignore: true, Fail: true})
	l.setting("boot_grace=1m", "boot_grace=1m\nretries=1\nrestarts=0")
	isolated(t, l)
	pod := l.pod("by-hand", l.machine)
	l.eventually("the device has failed",
		func() bool { phase := l.phase(); return phase == v1alpha1.PhaseError || phase == v1alpha1.PhaseGivenUp })
	require.NotNil(t, l.find("by-hand"))
	l.rack.Break(l.machine, fencingtest.Fault{})
	l.rack.Set(l.machine, false)
	l.annotate(v1alpha1.AnnotationConfirmOff, "1")
	l.eventually("the pod is released", func() bool { p := l.find("by-hand"); return p == nil || p.UID != pod.UID })
	l.requireNoBreach()
}

// A fence that was given up is started again by an admin.
func TestAdminRestarts(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	l.database(time.Hour)
	isolated(t, l)
	l.annotate(v1alpha1.AnnotationStop, "hold")
	l.reaches(v1alpha1.PhaseGivenUp)
	require.Empty(t, l.rack.Events())
	_, err := l.fences.Patch(t.Context(), v1alpha1.Name(l.machine), "application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"`+v1alpha1.AnnotationStop+`":null,"`+v1alpha1.AnnotationRestart+
			`":"1"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	l.reaches(v1alpha1.PhaseFinal)
	assert.EqualValues(t, 2, l.record().Status.Incident)
	l.requireRecovered()
}
