package statemachine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

func part(r *rig, part statemachine.ReleasePart) statemachine.Release {
	r.t.Helper()
	for {
		if step := next[statemachine.Release](r); step.Part == part {
			return step
		}
	}
}

func TestPodsAreDeletedOnlyWithAFreshProof(t *testing.T) {
	r := newRig(t, bmc())
	r.pods = 1000
	for range 50 {
		part(r, statemachine.DeletePods) // none of them late, or the rig would have said so
	}
	step := r.decide().(statemachine.Release)
	r.pass(time.Second)
	assert.True(t, step.Late(r.now), "a reading of a second ago proves nothing")
	assert.Equal(t, statemachine.Read{Devices: []string{"bmc"}}, r.decide())
	r.step()
	r.pass(time.Second)
	assert.NotEqual(t, statemachine.DeletePods, r.decide(), "neither does a look")
	r.plugs["bmc"].on = true
	r.until(statemachine.Contradicted)
	left := r.pods
	r.until(statemachine.TaintRemoved)
	assert.Equal(t, left, r.pods)
	assert.NotContains(t, r.transcript(), " Taint\n")
}

func TestTaintGoesWhenTheMachineIsSwitchedOn(t *testing.T) {
	r := newRig(t, bmc())
	part(r, statemachine.Taint)
	r.pass(10 * time.Second)
	r.plugs["bmc"].on = true
	r.until(statemachine.Contradicted)
	assert.Equal(t, v1alpha1.TaintOurs, r.node.OutOfService)
	r.until(statemachine.TaintRemoved)
	assert.Equal(t, v1alpha1.TaintNone, r.node.OutOfService)
}

func TestReleaseEndsWhen(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*rig)
		reason  statemachine.Reason
		abort   v1alpha1.Abort
	}{
		"the node is shown Ready": {
			func(r *rig) { r.shown = func(n *statemachine.Node) { n.Ready = true } },
			statemachine.Returned, v1alpha1.AbortNodeReady,
		},
		"the node is another": {
			func(r *rig) { r.node.UID = "other" }, statemachine.NodeGone,
			v1alpha1.AbortNodeGone,
		},
		"the node is deleted": {
			func(r *rig) { r.node.Missing = true }, statemachine.NodeGone,
			v1alpha1.AbortNodeGone,
		},
		"a feed is on": {
			func(r *rig) { r.plugs["bmc"].on = true }, statemachine.Contradicted,
			v1alpha1.AbortGaveUp,
		},
		"a feed is not readable": {
			func(r *rig) { r.plugs["bmc"].silent = true }, statemachine.PassUnread,
			v1alpha1.AbortGaveUp,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, bmc())
			r.until(statemachine.ReleaseBegun)
			r.pass(time.Second)
			c.happens(r)
			r.phase(v1alpha1.PhaseRestoring)
			assert.Equal(t, c.abort, r.status().Abort)
			assert.NotContains(t, r.transcript(), "DeletePods")
			assert.Contains(t, r.lines[len(r.lines)-1], c.reason)
		})
	}
}

func TestTaintOfSomebodyElseIsLeftAlone(t *testing.T) {
	r := newRig(t, bmc())
	r.node.OutOfService = v1alpha1.TaintForeign
	r.phase(v1alpha1.PhaseFinal)
	assert.Equal(t, v1alpha1.TaintForeign, r.node.OutOfService)
	assert.NotContains(t, r.transcript(), "Taint\n")
	assert.NotContains(t, r.transcript(), "Untaint")
	assert.Contains(t, r.transcript(), "DeletePods")
}

// The rig judges how long after.
func TestTaintComesAfterThePodsAreGone(t *testing.T) {
	r := newRig(t, bmc())
	r.pods = 25 // they take several times
	r.until(statemachine.WorkloadsFreed)
	var parts []statemachine.ReleasePart
	for _, step := range r.steps {
		if release, ok := step.(statemachine.Release); ok {
			parts = append(parts, release.Part)
		}
	}
	assert.Equal(t, []statemachine.ReleasePart{
		statemachine.DeletePods, statemachine.DeletePods, statemachine.DeletePods, statemachine.Taint,
		statemachine.AwaitDetach, statemachine.Untaint,
	}, parts)
	assert.Equal(t, v1alpha1.Pods{Listed: 3, Deleted: 3}, r.status().Pods)
}

// What the process before has deleted may not be known everywhere yet, and what it meant to delete
// may still be there.
func TestProcessThatStartsBetweenPodsAndTaintDeletesAgain(t *testing.T) {
	r := newRig(t, bmc())
	part(r, statemachine.DeletePods)
	r.restart()
	r.lines = nil
	part(r, statemachine.Taint)
	assert.Contains(t, r.transcript(), "DeletePods\n")
}

func TestVolumesAreWaitedForAMinute(t *testing.T) {
	r := newRig(t, bmc())
	r.volumes = 1 << 20
	r.until(statemachine.PodsDeleted)
	began := r.elapsed()
	r.until(statemachine.WorkloadsFreed)
	assert.InDelta(t, time.Minute+2*time.Second, r.elapsed()-began, float64(3*time.Second))
}

func TestReleaseStartsAgainAfterACrash(t *testing.T) {
	r := newRig(t, bmc())
	r.volumes = 1000
	r.until(statemachine.PodsDeleted)
	r.restart()
	r.lines = nil
	part(r, statemachine.Taint)
	assert.Contains(t, r.transcript(), "DeletePods\n", "everything is done once more")
}

func TestTaintIsGoneForAWhileBeforePowerComesBack(t *testing.T) {
	r := newRig(t, bmc())
	part(r, statemachine.Untaint)
	gone := r.elapsed()
	r.until(statemachine.WorkloadsFreed)
	assert.GreaterOrEqual(t, r.elapsed()-gone, 2*time.Second)
}

func TestOtherConditionThanReady(t *testing.T) {
	ready := func(r *rig) { r.node.Ready, r.node.Failing = true, true }
	t.Run("does not take the power of a Ready node", func(t *testing.T) {
		r := newRig(t, bmc())
		ready(r)
		r.rest(time.Hour)
		assert.Equal(t, v1alpha1.PhaseIsolated, r.status().Phase)
		assert.Equal(t, "NodeReady", r.status().Hold.Reason)
		r.node.Failing = false
		r.renews = true
		r.phase(v1alpha1.PhaseFinal)
		assert.Empty(t, r.plugs["bmc"].commands)
	})
	t.Run("unless configured, and releases once it is not shown Ready any more", func(t *testing.T) {
		r := newRig(t, bmc())
		r.fenceReady = true
		ready(r)
		r.shown = func(n *statemachine.Node) { n.Ready, n.Failing = true, true }
		r.until(statemachine.AllOff)
		r.rest(40 * time.Second)
		assert.Equal(t, v1alpha1.PhaseVerifying, r.status().Phase)
		r.shown = nil
		r.phase(v1alpha1.PhaseFinal)
	})
}

// storage is a plan that cuts a node off from storage first.
func storage() nodeplan.Plan {
	port := device("port")
	p := planOf(nodeplan.Level{feed("pdu")})
	p.Isolation = nodeplan.Level{{
		Name: "fc-off", Action: agent.ActionOff, Device: port, MustSucceed: true, Storage: true,
	}}
	p.Recovery = nodeplan.Level{{Name: "fc-on", Action: agent.ActionOn, Device: port, MustSucceed: true}}
	return p
}

func TestStorageComesBackOnlyForARebootedMachine(t *testing.T) {
	r := newRig(t, storage())
	assert.Equal(t, []string{"port"}, next[statemachine.Release](r).Storage)
	r.phase(v1alpha1.PhaseIsolated)
	require.Equal(t, v1alpha1.ReleasedDone, r.status().StorageReleased)
	r.back()
	r.rest(time.Hour)
	assert.Equal(t, "RestartNeeded", r.status().Hold.Reason)
	assert.Equal(t, v1alpha1.PhaseRestoring, r.status().Phase)
	assert.Equal(t, []agent.Action{off}, r.plugs["port"].commands)
	r.node.BootID = "another"
	r.phase(v1alpha1.PhaseFinal)
	assert.Equal(t, []agent.Action{off, on}, r.plugs["port"].commands)
}

func TestStorageThatWasNotReleasedComesBack(t *testing.T) {
	plan := storage()
	plan.Isolation[0].Storage = false
	r := newRig(t, plan)
	r.phase(v1alpha1.PhaseIsolated)
	r.back()
	r.phase(v1alpha1.PhaseFinal)
	assert.Equal(t, []agent.Action{off, on}, r.plugs["port"].commands)
	assert.Empty(t, r.status().StorageReleased)
}

func TestStopLeavesStorageThatWasReleased(t *testing.T) {
	r := newRig(t, storage())
	r.phase(v1alpha1.PhaseIsolated)
	r.annotate(v1alpha1.AnnotationStop, "restore")
	r.phase(v1alpha1.PhaseGivenUp)
	assertCondition(t, r, v1alpha1.ConditionPoweredOff, "True")
	assert.Equal(t, []agent.Action{off}, r.plugs["port"].commands)
}

func TestPodsOfANodeThatIsReadyKeepTheirStorageObjects(t *testing.T) {
	r := newRig(t, storage())
	r.node.Ready, r.node.Failing = true, true // another condition
	r.rest(time.Hour)
	assert.Equal(t, v1alpha1.PhaseIsolating, r.status().Phase)
	assert.Equal(t, "NodeReady", r.status().Hold.Reason)
	assert.NotContains(t, r.transcript(), "DeletePods")
}

func TestStorageThatIsOnAgainEndsTheFence(t *testing.T) {
	r := newRig(t, storage())
	r.until(statemachine.OffSeen)
	r.plugs["port"].on = true
	r.pass(2 * time.Second)
	r.until(statemachine.Contradicted)
	assert.NotContains(t, r.transcript(), "DeletePods")
}

// TestStorageWithAPathThatCannotBeCut has two ports lead to one storage, and one of them cannot be
// switched off: the machine may write until its power is off.
func TestStorageWithAPathThatCannotBeCut(t *testing.T) {
	for _, deaf := range []string{"port", "second"} {
		t.Run(deaf, func(t *testing.T) {
			plan, second := storage(), device("second")
			plan.Isolation = append(plan.Isolation,
				nodeplan.Method{Name: "fc2-off", Action: agent.ActionOff, Device: second, Storage: true})
			for i := range plan.Isolation {
				plan.Isolation[i].MustSucceed = false
			}
			r := newRig(t, plan)
			r.plugs[deaf].deaf = true
			r.phase(v1alpha1.PhaseIsolated)
			assert.Equal(t, v1alpha1.ReleasedNo, r.status().StorageReleased)
			assert.NotContains(t, r.transcript(), "DeletePods")
			r.restart() // the next process finds the same
			r.phase(v1alpha1.PhaseReleasing)
			assert.False(t, r.powered())
		})
	}
}
