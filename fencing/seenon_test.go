package fencing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// fenceReady is what a node says of its devices.
func (w *world) fenceReady(node string) corev1.NodeCondition {
	w.t.Helper()
	for _, c := range w.node(node).Status.Conditions {
		if c.Type == "FenceReady" {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// A plug was read on, and is not the node's any more: somebody has moved a cable. Off, it proves
// nothing, and people learn it before the node is lost.
func TestPlugThatIsOffWhileItsNodeWorksProvesNothing(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		breaches := w.referee()
		w.pod("db-0", "n1")
		r := &recorder{}
		a := w.start("a", func(c *fencing.Config) { c.Events = r })
		defer a.stop()
		wait(w.ctx, settled)
		require.Equal(t, corev1.ConditionTrue, w.fenceReady("n1").Status)

		w.unwire("n1")
		w.rack.Set("n1", false)
		took := w.eventually(10*time.Minute, "the node says that it could not be fenced",
			func() bool { return w.fenceReady("n1").Status == corev1.ConditionFalse })
		assert.Less(t, took, 6*time.Minute)
		assert.Contains(t, w.fenceReady("n1").Message, "reads off while the node works")
		said := r.take()
		require.Len(t, said, 1)
		assert.Contains(t, said[0], "Node n1 with UID true: Warning NotFenceable Check: ")
		wait(w.ctx, 65*time.Minute)
		assert.GreaterOrEqual(t, len(r.take()), 2, "it is said again as long as it is so")

		w.cutOff("n1", true)
		wait(w.ctx, 40*time.Minute)
		assert.Equal(t, []string{"db-0"}, w.pods("n1"))
		assert.Empty(t, breaches())
		hold := w.fence("n1").Status.Hold
		require.NotNil(t, hold)
		assert.Contains(t, hold.Message, "device fence_rack/rack/n1: reads off")
	})
}

// The same with a leader that comes between the two, and knows of the plug by what the one before
// it has left.
func TestPlugThatWasOffWhileItsNodeWorkedProvesNothingToTheNextLeader(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		breaches := w.referee()
		w.pod("db-0", "n1")
		a := w.start("a", nil)
		wait(w.ctx, settled)
		w.unwire("n1")
		w.rack.Set("n1", false)
		w.eventually(10*time.Minute, "the node says that it could not be fenced",
			func() bool { return w.fenceReady("n1").Status == corev1.ConditionFalse })
		a.stop()
		w.cutOff("n1", true)
		b := w.start("b", nil)
		defer b.stop()
		wait(w.ctx, 40*time.Minute)
		assert.Equal(t, []string{"db-0"}, w.pods("n1"))
		assert.Empty(t, breaches())
	})
}

// Another machine takes a Node over, and the plug of the old one, which was seen on, is off.
func TestPlugOfTheMachineThatWasReplacedProvesNothing(t *testing.T) {
	for name, checked := range map[string]time.Duration{
		"and the devices were read again": 10 * time.Minute,
		"a moment ago":                    0,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				breaches := w.referee()
				w.pod("db-0", "n1")
				a := w.start("a", func(c *fencing.Config) { c.CheckInterval = time.Hour })
				defer a.stop()
				wait(w.ctx, settled)
				w.replace("n1")
				w.rack.Set("n1", false)
				wait(w.ctx, boot)
				w.eventually(time.Minute, "the new machine is there",
					func() bool { return w.node("n1").Status.NodeInfo.BootID == "1" })
				wait(w.ctx, checked)
				w.cutOff("n1", true)
				wait(w.ctx, 40*time.Minute)
				assert.Equal(t, []string{"db-0"}, w.pods("n1"))
				assert.Empty(t, breaches())
			})
		})
	}
}

// The same without a leader meanwhile: the next leader finds what was seen of the machine before.
func TestPlugOfTheMachineThatWasReplacedProvesNothingToTheNextLeader(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		breaches := w.referee()
		w.pod("db-0", "n1")
		a := w.start("a", nil)
		wait(w.ctx, settled)
		a.stop()
		w.replace("n1")
		w.rack.Set("n1", false)
		w.eventually(5*time.Minute, "the new machine is there",
			func() bool { return w.node("n1").Status.NodeInfo.BootID == "1" })
		wait(w.ctx, time.Minute)
		w.cutOff("n1", true)
		wait(w.ctx, time.Minute)
		b := w.start("b", nil)
		defer b.stop()
		wait(w.ctx, 20*time.Minute)
		assert.Equal(t, []string{"db-0"}, w.pods("n1"))
		assert.Empty(t, breaches())
	})
}

// The machine has lost its power before anybody has switched it off, perhaps with the leader on it:
// what that has seen while the node worked is at the Node.
func TestMachineThatIsOffAlreadyAndAnotherLeader(t *testing.T) {
	for name, change := range map[string]func(w *world, a *replica) *replica{
		"the same leader": func(_ *world, a *replica) *replica { return a },
		"the next leader": func(w *world, a *replica) *replica { a.stop(); return w.start("b", nil) },
		"the leader's own host": func(w *world, a *replica) *replica {
			a.client.Sever()
			a.kill()
			return w.start("b", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				breaches := w.referee()
				w.pod("db-0", "n1")
				a := w.start("a", nil)
				wait(w.ctx, settled)
				w.rack.Set("n1", false)
				a = change(w, a)
				defer a.stop()
				w.eventually(20*time.Minute, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
				w.ends("n1", v1alpha1.PhaseGivenUp)
				assert.Empty(t, breaches())
				assert.Equal(t, 1, w.rack.Count("n1", "power", agent.ActionOff))
				assert.Zero(t, w.rack.Count("n1", "power", agent.ActionOn), "somebody may be working on the machine")
				w.rack.Set("n1", true) // when that is over
				w.ends("n1", v1alpha1.PhaseFinal)
			})
		})
	}
}
