package fencing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// twoLevels gives n1 a BMC, which is the plug of its name, and two power supplies, with the default
// times and no others.
func (w *world) twoLevels() {
	w.mu.Lock()
	w.feeds, w.dead = map[string]string{"feed": "n1", "port": "n1"}, map[string]bool{}
	w.mu.Unlock()
	data := map[string]string{
		"config.properties": "node_name=n1\nisolation=mark-unschedulable\npower_management=bmc-off " +
			"bmc-on\npower_management.2=a-off b-off a-on b-on\nrecovery=mark-schedulable\n",
	}
	for name, plug := range map[string]string{"bmc": "n1", "a": "feed", "b": "port"} {
		for _, action := range []string{"off", "on"} {
			data[fmt.Sprintf("fence-method-%s-%s", name,
				action)] = fmt.Sprintf("template=fence-method-template-rack\nplug=%s\naction=%s\n", plug, action)
		}
	}
	w.configure("fence-config-node-n1", data)
}

// bound is the longest time from the loss of a node to the release of its pods, with default times.
// It is the time until the node is shown not Ready, not_ready_for, power_wait, and two minutes for
// checks and devices.
const bound = silence + heartbeat + 30*time.Second + 5*time.Minute + 2*time.Minute

// The twin of TestDeadBMCThenPDUs with default times: the devices are checked in between, and the
// BMC does not answer.
func TestDeadBMCThenPDUsWithDefaultTimes(t *testing.T) {
	for i := range 5 {
		inWorld(t, 3, func(w *world) {
			breaches := w.referee()
			w.twoLevels()
			w.pod("db-0", "n1")
			a := w.start("a", nil)
			defer a.stop()
			wait(w.ctx, settled+time.Duration(i)*66*time.Second) // at any moment between two checks
			require.Equal(t, corev1.ConditionTrue, w.fenceReady("n1").Status)
			w.rack.Break("n1", fencingtest.Fault{Unreadable: true})
			w.cutOff("n1", true)
			w.eventually(bound, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
			assert.Empty(t, breaches())
			assert.Zero(t, w.rack.Count("n1", "command", agent.ActionOff))
			w.cutOff("n1", false)
			w.rack.Break("n1", fencingtest.Fault{})
			w.ends("n1", v1alpha1.PhaseFinal)
		})
	}
}

// The BMC has died long before its node: that is said, and keeps no node from being fenced.
func TestNodeWithADeadBMCIsReadyToBeFencedByItsPDUs(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.twoLevels()
		w.pod("db-0", "n1")
		w.rack.Break("n1", fencingtest.Fault{Unreadable: true})
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		c := w.fenceReady("n1")
		assert.Equal(t, corev1.ConditionTrue, c.Status)
		assert.Equal(t, "LevelUnusable", c.Reason)
		assert.Contains(t, c.Message, "n1: no answer")
		w.cutOff("n1", true)
		w.eventually(bound, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
	})
}

// The BMC has its power from the power supplies, as most have: it does not answer while they are
// off, and for a while after.
func TestBMCThatIsFedByThePDUs(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		breaches := w.referee()
		w.twoLevels()
		w.pod("db-0", "n1")
		w.rack.Break("n1", fencingtest.Fault{Ignore: true}) // stuck
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		w.eventually(15*time.Minute, "the power supplies are off",
			func() bool { return !w.rack.On("feed") && !w.rack.On("port") })
		off := time.Now()
		w.rack.Break("n1", fencingtest.Fault{Unreadable: true})
		w.eventually(5*time.Minute, "they are on again", func() bool { return w.rack.On("feed") && w.rack.On("port") })
		assert.Less(t, time.Since(off), 2*time.Minute)
		wait(w.ctx, 20*time.Second)
		w.rack.Break("n1", fencingtest.Fault{})
		w.cutOff("n1", false)
		w.ends("n1", v1alpha1.PhaseFinal)
		assert.Empty(t, breaches())
		assert.Empty(t, w.node("n1").Spec.Taints)
	})
}
