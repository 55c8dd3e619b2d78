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

func part(c *cluster, part statemachine.ReleasePart) statemachine.Release {
	c.t.Helper()
	for {
		if step := next[statemachine.Release](c); step.Part == part {
			return step
		}
	}
}

func TestPodsAreDeletedOnlyWithAFreshProof(t *testing.T) {
	c := newCluster(t, bmc())
	c.pods = 1000
	for range 50 {
		part(c, statemachine.DeletePods) // none of them late, or the cluster would have said so
	}
	step := c.decide().(statemachine.Release)
	c.pass(time.Second)
	assert.True(t, step.Late(c.now), "a reading of a second ago proves nothing")
	assert.Equal(t, statemachine.Read{Devices: []string{"bmc"}}, c.decide())
	c.step()
	c.pass(time.Second)
	assert.NotEqual(t, statemachine.DeletePods, c.decide(), "neither does a look")
	c.plugs["bmc"].on = true
	c.until(statemachine.Contradicted)
	left := c.pods
	c.until(statemachine.TaintRemoved)
	assert.Equal(t, left, c.pods)
	assert.NotContains(t, c.transcript(), " Taint\n")
}

func TestTaintGoesWhenTheMachineIsSwitchedOn(t *testing.T) {
	c := newCluster(t, bmc())
	part(c, statemachine.Taint)
	c.pass(10 * time.Second)
	c.plugs["bmc"].on = true
	c.until(statemachine.Contradicted)
	assert.Equal(t, v1alpha1.TaintOurs, c.node.OutOfService)
	c.until(statemachine.TaintRemoved)
	assert.Equal(t, v1alpha1.TaintNone, c.node.OutOfService)
}

func TestReleaseEndsWhen(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*cluster)
		reason  statemachine.Reason
		abort   v1alpha1.Abort
	}{
		"the node is shown Ready": {
			func(c *cluster) { c.shown = func(n *statemachine.Node) { n.Ready = true } },
			statemachine.Returned, v1alpha1.AbortNodeReady,
		},
		"the node is another": {
			func(c *cluster) { c.node.UID = "other" }, statemachine.NodeGone,
			v1alpha1.AbortNodeGone,
		},
		"the node is deleted": {
			func(c *cluster) { c.node.Missing = true }, statemachine.NodeGone,
			v1alpha1.AbortNodeGone,
		},
		"a feed is on": {
			func(c *cluster) { c.plugs["bmc"].on = true }, statemachine.Contradicted,
			v1alpha1.AbortGaveUp,
		},
		"a feed is not readable": {
			func(c *cluster) { c.plugs["bmc"].silent = true }, statemachine.PassUnread,
			v1alpha1.AbortGaveUp,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newCluster(t, bmc())
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
	c := newCluster(t, bmc())
	c.node.OutOfService = v1alpha1.TaintForeign
	c.phase(v1alpha1.PhaseFinal)
	assert.Equal(t, v1alpha1.TaintForeign, c.node.OutOfService)
	assert.NotContains(t, c.transcript(), "Taint\n")
	assert.NotContains(t, c.transcript(), "Untaint")
	assert.Contains(t, c.transcript(), "DeletePods")
}

// The cluster judges how long after.
func TestTaintComesAfterThePodsAreGone(t *testing.T) {
	c := newCluster(t, bmc())
	c.pods = 25 // they take several times
	c.until(statemachine.WorkloadsFreed)
	var parts []statemachine.ReleasePart
	for _, step := range c.steps {
		if release, ok := step.(statemachine.Release); ok {
			parts = append(parts, release.Part)
		}
	}
	assert.Equal(t, []statemachine.ReleasePart{
		statemachine.DeletePods, statemachine.DeletePods, statemachine.DeletePods, statemachine.Taint,
		statemachine.AwaitDetach, statemachine.Untaint,
	}, parts)
	assert.Equal(t, v1alpha1.Pods{Listed: 3, Deleted: 3}, c.status().Pods)
}

// What the process before has deleted may not be known everywhere yet, and what it meant to delete
// may still be there.
func TestProcessThatStartsBetweenPodsAndTaintDeletesAgain(t *testing.T) {
	c := newCluster(t, bmc())
	part(c, statemachine.DeletePods)
	c.restart()
	c.lines = nil
	part(c, statemachine.Taint)
	assert.Contains(t, c.transcript(), "DeletePods\n")
}

func TestVolumesAreWaitedForAMinute(t *testing.T) {
	c := newCluster(t, bmc())
	c.volumes = 1 << 20
	c.until(statemachine.PodsDeleted)
	began := c.elapsed()
	c.until(statemachine.WorkloadsFreed)
	assert.InDelta(t, time.Minute+2*time.Second, c.elapsed()-began, float64(3*time.Second))
}

func TestReleaseStartsAgainAfterACrash(t *testing.T) {
	c := newCluster(t, bmc())
	c.volumes = 1000
	c.until(statemachine.PodsDeleted)
	c.restart()
	c.lines = nil
	part(c, statemachine.Taint)
	assert.Contains(t, c.transcript(), "DeletePods\n", "everything is done once more")
}

func TestTaintIsGoneForAWhileBeforePowerComesBack(t *testing.T) {
	c := newCluster(t, bmc())
	part(c, statemachine.Untaint)
	gone := c.elapsed()
	c.until(statemachine.WorkloadsFreed)
	assert.GreaterOrEqual(t, c.elapsed()-gone, 2*time.Second)
}

func TestOtherConditionThanReady(t *testing.T) {
	ready := func(c *cluster) { c.node.Ready, c.node.Failing = true, true }
	t.Run("does not take the power of a Ready node", func(t *testing.T) {
		c := newCluster(t, bmc())
		ready(c)
		c.rest(time.Hour)
		assert.Equal(t, v1alpha1.PhaseIsolated, c.status().Phase)
		assert.Equal(t, "NodeReady", c.status().Hold.Reason)
		c.node.Failing = false
		c.renews = true
		c.phase(v1alpha1.PhaseFinal)
		assert.Empty(t, c.plugs["bmc"].commands)
	})
	t.Run("unless configured, and releases once it is not shown Ready any more", func(t *testing.T) {
		c := newCluster(t, bmc())
		c.fenceReady = true
		ready(c)
		c.shown = func(n *statemachine.Node) { n.Ready, n.Failing = true, true }
		c.until(statemachine.AllOff)
		c.rest(40 * time.Second)
		assert.Equal(t, v1alpha1.PhaseVerifying, c.status().Phase)
		c.shown = nil
		c.phase(v1alpha1.PhaseFinal)
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
	c := newCluster(t, storage())
	assert.Equal(t, []string{"port"}, next[statemachine.Release](c).Storage)
	c.phase(v1alpha1.PhaseIsolated)
	require.Equal(t, v1alpha1.ReleasedDone, c.status().StorageReleased)
	c.back()
	c.rest(time.Hour)
	assert.Equal(t, "RestartNeeded", c.status().Hold.Reason)
	assert.Equal(t, v1alpha1.PhaseRestoring, c.status().Phase)
	assert.Equal(t, []agent.Action{off}, c.plugs["port"].commands)
	c.node.BootID = "another"
	c.phase(v1alpha1.PhaseFinal)
	assert.Equal(t, []agent.Action{off, on}, c.plugs["port"].commands)
}

func TestStorageThatWasNotReleasedComesBack(t *testing.T) {
	plan := storage()
	plan.Isolation[0].Storage = false
	c := newCluster(t, plan)
	c.phase(v1alpha1.PhaseIsolated)
	c.back()
	c.phase(v1alpha1.PhaseFinal)
	assert.Equal(t, []agent.Action{off, on}, c.plugs["port"].commands)
	assert.Empty(t, c.status().StorageReleased)
}

func TestStopLeavesStorageThatWasReleased(t *testing.T) {
	c := newCluster(t, storage())
	c.phase(v1alpha1.PhaseIsolated)
	c.annotate(v1alpha1.AnnotationStop, "restore")
	c.phase(v1alpha1.PhaseGivenUp)
	assertCondition(t, c, v1alpha1.ConditionPoweredOff, "True")
	assert.Equal(t, []agent.Action{off}, c.plugs["port"].commands)
}

func TestPodsOfANodeThatIsReadyKeepTheirStorageObjects(t *testing.T) {
	c := newCluster(t, storage())
	c.node.Ready, c.node.Failing = true, true // another condition
	c.rest(time.Hour)
	assert.Equal(t, v1alpha1.PhaseIsolating, c.status().Phase)
	assert.Equal(t, "NodeReady", c.status().Hold.Reason)
	assert.NotContains(t, c.transcript(), "DeletePods")
}

func TestStorageThatIsOnAgainEndsTheFence(t *testing.T) {
	c := newCluster(t, storage())
	c.until(statemachine.OffSeen)
	c.plugs["port"].on = true
	c.pass(2 * time.Second)
	c.until(statemachine.Contradicted)
	assert.NotContains(t, c.transcript(), "DeletePods")
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
			c := newCluster(t, plan)
			c.plugs[deaf].deaf = true
			c.phase(v1alpha1.PhaseIsolated)
			assert.Equal(t, v1alpha1.ReleasedNo, c.status().StorageReleased)
			assert.NotContains(t, c.transcript(), "DeletePods")
			c.restart() // the next process finds the same
			c.phase(v1alpha1.PhaseReleasing)
			assert.False(t, c.powered())
		})
	}
}
