package statemachine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

const (
	off = agent.ActionOff
	on  = agent.ActionOn
)

func TestDeviceThatReadsOffBeforeItIsCommandedCountsOnlyIfItIsKnown(t *testing.T) {
	for known, want := range map[bool]statemachine.Reason{
		true:  statemachine.Verified,
		false: statemachine.PowerFailed,
	} {
		c := newCluster(t, bmc())
		c.unknown = !known
		c.plugs["bmc"].on = false
		c.until(want)
		if known {
			assert.Equal(t, []agent.Action{off}, c.plugs["bmc"].commands, "the command is sent nevertheless")
		} else {
			assert.Empty(t, c.plugs["bmc"].commands)
		}
	}
}

// A machine that is off may have been switched off by somebody who is working on it.
func TestWhatSomebodyElseHasSwitchedOffIsNotSwitchedOn(t *testing.T) {
	for _, name := range []string{"one process", "the fencer has crashed meanwhile"} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, bmc())
			c.plugs["bmc"].on = false
			c.until(statemachine.Verified)
			if name != "one process" {
				c.restart()
			}
			c.until(statemachine.Ended)
			assert.Equal(t, []agent.Action{off}, c.plugs["bmc"].commands)
			assert.Equal(t, v1alpha1.ReleasedDone, c.status().Released)
			complete := meta.FindStatusCondition(c.status().Conditions, v1alpha1.ConditionComplete)
			require.NotNil(t, complete)
			assert.Equal(t, "off before the fence, and not by it: bmc. Somebody may be working on the machine: switch "+
				"it on when that is over", complete.Message)

			c.plugs["bmc"].on = true // by that person, and the node returns
			c.back()
			c.until(statemachine.Recovered)
		})
	}
}

func TestWhatIsSwitchedOnMeanwhileIsSwitchedOnAgain(t *testing.T) {
	c := newCluster(t, bmc())
	c.plugs["bmc"].on, c.plugs["bmc"].deaf = false, true
	next[statemachine.Call](c)
	c.plugs["bmc"].on = true
	c.until(statemachine.OffSpent)
	c.plugs["bmc"].deaf = false
	c.until(statemachine.Recovered)
	assert.Equal(t, []agent.Action{off, off, on}, c.plugs["bmc"].commands)
}

func TestDeviceIsReadTwiceHalfASecondApart(t *testing.T) {
	c := newCluster(t, bmc())
	c.until(statemachine.Verified)
	require.Len(t, c.status().Evidence, 1)
	e := c.status().Evidence[0]
	assert.Equal(t, c.status().Jobs[0], e.Op)
	assert.Equal(t, v1alpha1.SourceAgent, e.Source)
	require.GreaterOrEqual(t, len(e.Readings), 2)
	for i, reading := range e.Readings {
		assert.Equal(t, agent.PowerOff, reading.Power)
		if i == 1 {
			assert.GreaterOrEqual(t, reading.At.Sub(e.Readings[0].At.Time), 500*time.Millisecond)
		}
	}
}

func TestSlowDeviceIsPolledForSomeSecondsBeforeAnotherTakesItsPlace(t *testing.T) {
	for delay, want := range map[time.Duration]statemachine.Reason{
		time.Second:     statemachine.OffSeen,
		4 * time.Second: statemachine.NextLevel,
	} {
		c := newCluster(t, planOf(nodeplan.Level{feed("bmc")}, nodeplan.Level{feed("pdu")}))
		c.plugs["bmc"].delay = delay
		call := next[statemachine.Call](c)
		assert.Equal(t, "bmc", call.Device)
		sent := c.elapsed()
		assert.Equal(t, want, next[statemachine.Write](c).Reason)
		assert.Less(t, c.elapsed()-sent, 4*time.Second)
	}
	c := newCluster(t, bmc())
	c.plugs["bmc"].delay = 4 * time.Second
	c.until(statemachine.OffSeen)
	assert.Len(t, c.plugs["bmc"].commands, 1, "where there is no other it has longer")
}

func TestCommandIsSentAgainOnlyAfterItHasSettled(t *testing.T) {
	c := newCluster(t, bmc())
	c.plugs["bmc"].deaf = true
	next[statemachine.Call](c)
	sent := c.elapsed()
	c.until(statemachine.OffSpent)
	assert.GreaterOrEqual(t, c.elapsed()-sent, 30*time.Second)
	c.until(statemachine.PowerFailed)
	assert.Equal(t, []agent.Action{off, off, off}, c.plugs["bmc"].commands, "as often as a step may be tried")
	assert.Equal(t, v1alpha1.PhaseError, c.status().Phase)
	assert.Equal(t, v1alpha1.StageError, c.status().Status)
}

func TestUnreadableDeviceGetsOneCommand(t *testing.T) {
	c := newCluster(t, bmc())
	c.plugs["bmc"].silent = true
	c.phase(v1alpha1.PhaseError)
	assert.Equal(t, []agent.Action{off}, c.plugs["bmc"].commands)
	c.phase(v1alpha1.PhaseGivenUp)
	assert.Equal(t, []agent.Action{off, on, on, on}, c.plugs["bmc"].commands,
		"a restart does not send another; power comes back as well as it can")
}

func TestNewProcessWaitsForTheCallOfTheOneBeforeAndForTheDevice(t *testing.T) {
	plan := bmc()
	d := plan.PowerManagement[0][0].Device
	d.Timeout, d.Settle = 20*time.Second, 40*time.Second
	c := newCluster(t, plan)
	c.plugs["bmc"].deaf = true
	next[statemachine.Call](c)
	c.restart()
	began := c.elapsed()
	c.until(statemachine.OffSpent)
	assert.GreaterOrEqual(t, c.elapsed()-began, time.Minute)
}

func TestIntentThatThisProcessDidNotWriteIsNeverSent(t *testing.T) {
	c := newCluster(t, bmc())
	c.until(statemachine.OffIntent)
	c.restart()
	c.until(statemachine.OffSpent)
	assert.Empty(t, c.plugs["bmc"].commands)
	c.until(statemachine.OffSeen)
	assert.Equal(t, []agent.Action{off}, c.plugs["bmc"].commands)
	assert.Equal(t, []string{"fence-c0ffee0012-1-1", "fence-c0ffee0012-1-2"}, c.status().Jobs)
}

func TestCommandThatIsLateIsNotSent(t *testing.T) {
	c := newCluster(t, bmc())
	c.until(statemachine.OffIntent)
	c.step() // the look
	call, ok := c.decide().(statemachine.Call)
	require.True(t, ok)
	assert.False(t, call.Late(c.now))
	c.pass(2 * time.Second)
	assert.True(t, call.Late(c.now))
	assert.IsType(t, statemachine.Look{}, c.decide())
	suspended := c.now
	suspended.Wall = suspended.Wall.Add(-2 * time.Second)
	assert.True(t, call.Late(suspended), "whatever clock it is by")
}

func TestNodeThatReturnsBetweenIntentAndCommandKeepsItsPower(t *testing.T) {
	for name, back := range map[string]func(*cluster){
		"Ready":          func(c *cluster) { c.back() },
		"deleted":        func(c *cluster) { c.node.Missing = true },
		"being deleted":  func(c *cluster) { c.node.Leaving = true },
		"another's name": func(c *cluster) { c.node.UID = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, bmc())
			c.until(statemachine.OffIntent)
			back(c)
			c.until(statemachine.IntentCancelled)
			assert.Equal(t, v1alpha1.PhaseRestoring, c.status().Phase)
			for !c.deleted && !c.status().Phase.Ended() {
				c.step()
			}
			assert.Empty(t, c.plugs["bmc"].commands)
		})
	}
}

func TestDeviceThatSomebodySwitchesOnIsNotSwitchedOffAgain(t *testing.T) {
	c := newCluster(t, bmc())
	c.until(statemachine.AllOff)
	c.plugs["bmc"].on = true
	c.pass(time.Second) // the readings by which it was seen off would count
	c.until(statemachine.Contradicted)
	c.phase(v1alpha1.PhaseGivenUp)
	assert.Equal(t, []agent.Action{off}, c.plugs["bmc"].commands)
	assert.Equal(t, v1alpha1.AbortGaveUp, c.status().Abort)
}

func TestNodeThatWorksWithoutPowerIsAnother(t *testing.T) {
	c := newCluster(t, bmc())
	c.until(statemachine.AllOff)
	c.shown = func(n *statemachine.Node) { n.Ready, n.Failing, n.Renewal = true, false, c.elapsed().String() }
	c.until(statemachine.WrongPlugSuspected)
	assert.Equal(t, v1alpha1.PhaseRestoring, c.status().Phase)
	assertCondition(t, c, v1alpha1.ConditionDeviceSuspect, "True")
	assert.Empty(t, c.status().Released)
}

// A dead BMC gets no command: it could prove nothing, and no one would know how to leave it
// in the end. So the machine can come back without it.
func TestDeviceThatCannotBeReadIsNotCommandedWhereAnotherTakesItsPlace(t *testing.T) {
	c := newCluster(t,
		planOf(nodeplan.Level{feed("bmc")}, nodeplan.Level{feed("a"), feed("b")}))
	c.plugs["bmc"].silent = true
	c.phase(v1alpha1.PhasePowering)
	began := c.elapsed()
	c.until(statemachine.AllOff)
	assert.Less(t, c.elapsed()-began, 6*time.Second)
	c.phase(v1alpha1.PhaseFinal)
	assert.Empty(t, c.plugs["bmc"].commands)
	assert.Equal(t, []agent.Action{off, on}, c.plugs["a"].commands)
	assert.Equal(t, []agent.Action{off, on}, c.plugs["b"].commands)
}

// Each renewal of the Lease makes the fence look at everything again. It must not forget what it
// compares with.
func TestNodeThatWorksWithoutPowerIsFoundOutByNewsOfIt(t *testing.T) {
	for _, every := range []time.Duration{2 * time.Second, 10 * time.Second} {
		c := newCluster(t, bmc())
		c.until(statemachine.AllOff)
		c.shown = func(n *statemachine.Node) {
			n.Ready, n.Failing, n.Renewal = true, false, fmt.Sprint(c.elapsed()/every)
		}
		for end := c.elapsed() + 5*time.Minute; c.status().Phase == v1alpha1.PhaseVerifying && c.elapsed() < end; {
			renewal := (c.elapsed()/every + 1) * every
			if wait, ok := c.decide().(statemachine.Wait); ok && c.elapsed()+wait.For >= renewal {
				c.pass(renewal - c.elapsed())
				c.memory = c.memory.Changed()
				continue
			}
			c.step()
		}
		assertCondition(t, c, v1alpha1.ConditionDeviceSuspect, "True")
	}
}

func TestReadyThatIsLeftFromBeforeIsWaitedOut(t *testing.T) {
	c := newCluster(t, bmc())
	c.until(statemachine.AllOff)
	c.shown = func(n *statemachine.Node) { n.Ready, n.Failing = true, false }
	c.rest(40 * time.Second)
	require.Equal(t, v1alpha1.PhaseVerifying, c.status().Phase)
	c.shown = nil
	c.until(statemachine.Verified)
}

func TestConfigurationIsPinnedByTheFirstCommand(t *testing.T) {
	t.Run("no further device is switched off", func(t *testing.T) {
		c := newCluster(t, planOf(nodeplan.Level{feed("a"), feed("b")}))
		c.until(statemachine.OffSeen)
		c.plan.Hash = "2"
		c.rest(10 * time.Minute)
		require.NotNil(t, c.status().Hold)
		assert.Equal(t, "ConfigurationChanged", c.status().Hold.Reason)
		assert.Empty(t, c.plugs["b"].commands)
		c.plan.Hash = "1"
		c.until(statemachine.Verified)
	})
	t.Run("other devices prove nothing", func(t *testing.T) {
		c := newCluster(t, bmc())
		c.until(statemachine.AllOff)
		c.plan = planOf(nodeplan.Level{feed("other")})
		c.plan.Hash = "2"
		c.plugs["other"] = &plug{}
		c.rest(10 * time.Minute)
		assert.Equal(t, v1alpha1.PhaseVerifying, c.status().Phase)
		c.shown = func(n *statemachine.Node) { n.Ready, n.Failing = true, false }
		c.rest(20 * time.Second)
		assert.Equal(t, v1alpha1.AbortNodeReady, c.status().Abort, "the node is looked at nevertheless")
	})
	t.Run("before it the new one counts", func(t *testing.T) {
		c := newCluster(t, bmc())
		c.phase(v1alpha1.PhasePowering)
		c.plan.Hash = "2"
		c.until(statemachine.OffSeen)
		assert.Equal(t, "2", c.status().ConfigHash)
	})
	t.Run("a device that is gone from it is waited for, until an admin says otherwise", func(t *testing.T) {
		c := newCluster(t, bmc())
		next[statemachine.Call](c)
		c.plan = planOf(nodeplan.Level{feed("other")})
		c.plan.Hash = "2"
		c.plugs["other"] = &plug{on: true}
		c.annotate(v1alpha1.AnnotationStop, "restore")
		c.rest(time.Hour)
		assert.Equal(t, "ConfigurationChanged", c.status().Hold.Reason)
		c.annotate(v1alpha1.AnnotationStop, "hold")
		c.phase(v1alpha1.PhaseGivenUp)
		assertCondition(t, c, v1alpha1.ConditionPoweredOff, "Unknown")
	})
}

// The record of a node was deleted, and there is another one: incidents and operations are counted
// from 1 again. Jobs have the IDs of operations as their names, and outlive the record.
func TestOperationsOfTwoRecordsOfANodeHaveOtherIDs(t *testing.T) {
	first, second := newCluster(t, bmc()), newCluster(t, bmc())
	second.fence.UID = "decaf000-1234-5678"
	for _, c := range []*cluster{first, second} {
		c.until(statemachine.OffIntent)
	}
	assert.Equal(t, first.status().NodeUID, second.status().NodeUID)
	assert.Equal(t, []string{"fence-c0ffee0012-1-1"}, first.status().Jobs)
	assert.Equal(t, []string{"fence-decaf00012-1-1"}, second.status().Jobs)
}
