package fencing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// A machine is lost. Without a fencer the pod of its StatefulSet is stuck; with one it comes up
// elsewhere, and the machine comes back.
func TestFencerFreesStatefulSet(t *testing.T) {
	t.Parallel()
	l := newLab(t, true)
	l.database(0)
	stuck := l.find("db-0")
	require.NoError(t, shared.Node(l.machine).Pause())
	l.eventually("the pod is to end", func() bool { return l.find("db-0").DeletionTimestamp != nil })
	l.never("Kubernetes needs no fence", 3*time.Second,
		func() bool { now := l.find("db-0"); return now == nil || now.UID != stuck.UID })
	require.NoError(t, shared.Node(l.machine).Resume())
	l.eventually("the pod runs where it was",
		func() bool { now := l.find("db-0"); return now != nil && now.UID != stuck.UID })
	l.home()

	fencer := l.start()
	l.checked()
	began := time.Now()
	since := func(what string) { t.Logf("%6.2f s  %s", time.Since(began).Seconds(), what) }
	require.NoError(t, shared.Node(l.machine).Pause())
	l.mu.Lock()
	l.lost = true
	l.mu.Unlock()
	l.eventually("the node is not Ready", func() bool { return !l.ready(l.machine) })
	since("the node is not Ready")
	l.eventually("there is a record", func() bool { return l.record() != nil })
	since("the fence begins")
	l.eventually("the power is cut", func() bool { return l.cuts() == 1 })
	since("the power is cut")
	l.requireOn(spareNode, "db-0")
	since("the pod runs elsewhere")
	l.eventually("the power is back", func() bool { return l.rack.On(l.machine) })
	since("the power is back")
	l.eventually("the node is Ready", func() bool { return l.ready(l.machine) })
	since("the node is Ready")
	l.reaches(v1alpha1.PhaseFinal)
	since("the fence has ended")
	l.requireRecovered()
	l.stop(fencer)
}

// A node that comes back in time keeps its power and its pods, and loses the taint.
func TestFencerLetsNodeReturn(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	l.database(time.Hour)
	uid := l.find("db-0").UID
	l.setting("power_wait=1s", "power_wait=1m")
	fencer := l.start()
	l.checked()
	l.lose()
	l.reaches(v1alpha1.PhaseIsolated)
	l.back()
	require.NoError(t, shared.Node(l.machine).Resume())
	l.setReady("True")
	l.reaches(v1alpha1.PhaseFinal)
	assert.Zero(t, l.cuts())
	assert.Zero(t, l.commands(agent.ActionOff))
	l.requireUnmarked()
	l.requireNoBreach()
	assert.Equal(t, uid, l.find("db-0").UID)
	l.stop(fencer)
}
