// Package storm_test loses many of a hundred nodes at once, of a real control plane: each test has
// one of its own, as the others' nodes are part of it.
package storm_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// 60 of 100 nodes are lost at once. It is not they who have failed: nothing is done to any, by the
// leader nor by the next one, which knows nothing, and Events say so. When they are back all is
// as it was.
func TestLossOf60Of100FencesNoNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, map[string]int{rest: 40, "lost": 60})
	lost := c.groups["lost"]
	leader, next := c.start("rest-0", limits), c.start("rest-1", limits)
	c.run(lost...)

	require.NoError(t, c.cp.Node("lost").Kill())
	c.eventually("60 fences are held", func() bool { return c.each(lost, held("Storm")) })
	c.eventually("Events say so", func() bool { return len(c.told("Storm")) >= 60 })
	told := c.told("Storm")
	for _, node := range lost {
		assert.Regexp(t, `in the cluster ([5-9]\d|100) of 100 nodes are unhealthy; from 50 on`, told[node])
	}

	if c.leader() != "fencer-1" {
		leader, next = next, leader
	}
	require.NoError(t, leader.Kill())
	c.eventually("the next leader holds them too", func() bool {
		return c.each(lost, func(f *v1alpha1.NodeFence) bool {
			return held("Storm")(f) && c.history.heldAnew(f.Node, "Storm") > 1
		})
	})
	c.quiet()
	for _, node := range lost {
		assert.Equal(t, []v1alpha1.Phase{v1alpha1.PhaseDetected}, c.history.phases(node))
	}
	assert.Empty(t, c.where(marked))
	assert.Len(t, c.pods(), 60)

	require.NoError(t, c.cp.Node("lost").Restart())
	c.eventually("all nodes are Ready", func() bool { return len(c.where(ready)) == 100 })
	c.eventually("the fences have ended",
		func() bool { return len(c.history.are(in(v1alpha1.PhaseFinal))) == len(c.history.last()) })
	c.quiet()
	for _, node := range lost {
		f := c.history.ended(node)
		assert.Equal(t, v1alpha1.AbortNodeReady, f.Status.Abort)
		assert.Empty(t, f.Status.Devices)
		assert.NotContains(t, c.history.phases(node), v1alpha1.PhaseIsolating)
	}
	assert.Empty(t, c.rack.Events(), "nothing was switched")
	assert.Empty(t, c.where(marked))
	assert.Len(t, c.pods(), 60)
	c.stop(next)
}

// quiet waits until no record has changed for longer than a fence has to wait for anything.
func (c *cluster) quiet() {
	c.t.Helper()
	versions, since := 0, time.Now()
	c.eventually("all is quiet", func() bool {
		if now := len(c.history.all()); now != versions {
			versions, since = now, time.Now()
		}
		return time.Since(since) > limits.CoolDown+3*time.Second
	})
}

// leader is the identity of the fencer that leads.
func (c *cluster) leader() string {
	c.t.Helper()
	lease, err := c.client.CoordinationV1().Leases(fencer).Get(c.t.Context(), fencer, metav1.GetOptions{})
	require.NoError(c.t, err)
	require.NotNil(c.t, lease.Spec.HolderIdentity)
	return *lease.Spec.HolderIdentity
}

// 30 of 100 nodes are lost at once. All of them are fenced, released, and back in the end, and
// never more at a time, nor in a while, than may be.
func TestLossOf30Of100FencesThemAll(t *testing.T) {
	t.Parallel()
	c := newCluster(t, map[string]int{rest: 70, "lost": 30})
	lost := c.groups["lost"]
	limits := limits
	limits.MaxConcurrent, limits.MaxStarts, limits.StartWindow = 5, 7, 5*time.Second
	fencer := c.start("rest-0", limits)
	c.run(lost...)

	require.NoError(t, c.cp.Node("lost").Kill())
	for _, node := range lost {
		c.dark(node, true) // until it has power again
	}
	require.NoError(t, c.cp.Node("lost").Restart())
	c.eventually("all fences have ended", func() bool {
		return !slices.ContainsFunc(lost, func(node string) bool { return c.history.ended(node) == nil })
	})
	c.eventually("all nodes are Ready", func() bool { return len(c.where(ready)) == 100 })
	c.eventually("nothing is left of the fences", func() bool { return len(c.where(marked)) == 0 })

	var starts []time.Time
	for _, node := range lost {
		f := c.history.ended(node)
		assert.Equal(t, 1, c.cuts(node), node)
		assert.Equal(t, 1, c.rack.Count(node, "command", agent.ActionOff), node)
		assert.Equal(t, 1, c.rack.Count(node, "power", agent.ActionOn), node)
		assert.True(t, f.Status.Verified)
		assert.Equal(t, v1alpha1.ReleasedDone, f.Status.Released)
		assert.Equal(t, v1alpha1.AbortNone, f.Status.Abort)
		require.Len(t, f.Status.Problems.Starts, 1)
		starts = append(starts, f.Status.Problems.Starts[0].Time)
	}
	for _, node := range c.groups[rest] {
		assert.Zero(t, c.rack.Count(node, "command", agent.ActionOff), node)
	}
	assert.Empty(t, c.pods(), "the pods are free")
	assert.Equal(t, limits.MaxConcurrent, c.history.most())
	assert.Equal(t, limits.MaxConcurrent, c.mostOff())
	slices.SortFunc(starts, time.Time.Compare)
	for i, start := range starts[limits.MaxStarts:] {
		assert.GreaterOrEqual(t, start.Sub(starts[i]), limits.StartWindow, "%d starts", limits.MaxStarts+1)
	}
	t.Logf("%v from the first start to the last", starts[len(starts)-1].Sub(starts[0]))
	c.stop(fencer)
}

// mostOff is how many machines were without power at the same time.
func (c *cluster) mostOff() int {
	most, off := 0, map[string]bool{}
	for _, e := range c.rack.Events() {
		if e.Kind == "power" && e.Action == agent.ActionOff {
			off[e.Plug] = true
		} else if e.Kind == "power" {
			delete(off, e.Plug)
		}
		most = max(most, len(off))
	}
	return most
}

// Conditions as node problem detectors set them: for one a node is isolated as long as it is Ready,
// for the other it loses its power nevertheless.
const (
	deadlock = corev1.NodeConditionType("KernelDeadlock")
	readonly = corev1.NodeConditionType("ReadonlyFilesystem")
)

// A node is fenced for a condition other than Ready: as far as it may be while it is Ready.
func TestOtherTriggers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, map[string]int{"node": 11})
	limits := limits
	limits.FenceReadyNodes = []string{string(readonly)}
	fencer := c.start("node-0", limits, "-trigger", string(deadlock)+"=True", "-trigger", string(readonly)+"=True")
	const isolated, harmless, readOnly, dies = "node-1", "node-2", "node-3", "node-4"
	c.boots = func(node string) { // a machine that has started has no such problems
		c.condition(node, deadlock, corev1.ConditionFalse)
		c.condition(node, readonly, corev1.ConditionFalse)
	}
	c.run(isolated, harmless, readOnly, dies)
	phase := func(node string) v1alpha1.Phase {
		if f := c.history.last()[node]; f != nil {
			return f.Status.Phase
		}
		return ""
	}

	c.condition(isolated, deadlock, corev1.ConditionTrue)
	c.condition(harmless, deadlock, corev1.ConditionUnknown)
	c.condition(readOnly, readonly, corev1.ConditionTrue)
	c.condition(dies, deadlock, corev1.ConditionTrue)
	c.eventually("nodes that are Ready are isolated", func() bool {
		return slices.Equal(c.history.are(held("NodeReady")), []string{isolated, dies}) &&
			phase(isolated) == v1alpha1.PhaseIsolated && phase(dies) == v1alpha1.PhaseIsolated
	})
	c.eventually("Events say so", func() bool { return len(c.told("NodeReady")) == 2 })
	c.dark(dies, true)
	for _, node := range []string{readOnly, dies} {
		c.eventually(node+" is fenced", func() bool { return phase(node) == v1alpha1.PhaseFinal })
		f := c.history.last()[node]
		assert.Equal(t, 1, c.cuts(node), node)
		assert.Equal(t, 1, c.rack.Count(node, "command", agent.ActionOff), node)
		assert.Equal(t, v1alpha1.ReleasedDone, f.Status.Released)
		assert.True(t, c.rack.On(node))
	}
	assert.Equal(t, []string{isolated}, c.where(marked))
	assert.Equal(t, []string{isolated}, c.history.are(in(v1alpha1.PhaseIsolated)))
	c.condition(isolated, deadlock, corev1.ConditionFalse)
	c.eventually("the node that is repaired is back", func() bool { return phase(isolated) == v1alpha1.PhaseFinal })
	assert.Nil(t, c.history.last()[harmless])
	for node, trigger := range map[string]corev1.NodeConditionType{
		isolated: deadlock, readOnly: readonly,
		dies: deadlock,
	} {
		assert.Equal(t, string(trigger), c.history.last()[node].Status.Triggers[0].Type)
	}
	for _, node := range []string{isolated, harmless} {
		assert.Zero(t, c.rack.Count(node, "command", agent.ActionOff), node)
	}
	assert.Empty(t, c.where(marked))
	var left []string
	for _, pod := range c.pods() {
		left = append(left, pod.Spec.NodeName)
	}
	assert.ElementsMatch(t, []string{isolated, harmless}, left)
	c.eventually("all nodes are Ready", func() bool { return len(c.where(ready)) == 11 })

	// What half of the nodes say at once is no news of theirs.
	switched, half := len(c.rack.Events()), c.groups["node"][5:]
	var all sync.WaitGroup
	for _, node := range half {
		all.Go(func() { c.condition(node, readonly, corev1.ConditionTrue) })
	}
	all.Wait()
	c.eventually("a storm is held", func() bool { return len(c.history.are(held("Storm"))) == len(half) })
	for _, node := range half {
		c.condition(node, readonly, corev1.ConditionFalse)
	}
	c.eventually("the storm is over", func() bool {
		return len(c.history.are(in(v1alpha1.PhaseFinal))) == len(c.history.last())
	})
	for _, node := range half {
		assert.NotContains(t, c.history.phases(node), v1alpha1.PhaseIsolating)
	}
	assert.Len(t, c.rack.Events(), switched)
	assert.Empty(t, c.where(marked))
	c.stop(fencer)
}
