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
		r := newRig(t, bmc())
		r.unknown = !known
		r.plugs["bmc"].on = false
		r.until(want)
		if known {
			assert.Equal(t, []agent.Action{off}, r.plugs["bmc"].commands, "the command is sent nevertheless")
		} else {
			assert.Empty(t, r.plugs["bmc"].commands)
		}
	}
}

// A machine that is off may have been switched off by somebody who is working on it.
func TestWhatSomebodyElseHasSwitchedOffIsNotSwitchedOn(t *testing.T) {
	for _, name := range []string{"one process", "the fencer has crashed meanwhile"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, bmc())
			r.plugs["bmc"].on = false
			r.until(statemachine.Verified)
			if name != "one process" {
				r.restart()
			}
			r.until(statemachine.Ended)
			assert.Equal(t, []agent.Action{off}, r.plugs["bmc"].commands)
			assert.Equal(t, v1alpha1.ReleasedDone, r.status().Released)
			complete := meta.FindStatusCondition(r.status().Conditions, v1alpha1.ConditionComplete)
			require.NotNil(t, complete)
			assert.Equal(t, "off before the fence, and not by it: bmc. Somebody may be working on the machine: switch "+
				"it on when that is over", complete.Message)

			r.plugs["bmc"].on = true // by that person, and the node returns
			r.back()
			r.until(statemachine.Recovered)
		})
	}
}

func TestWhatIsSwitchedOnMeanwhileIsSwitchedOnAgain(t *testing.T) {
	r := newRig(t, bmc())
	r.plugs["bmc"].on, r.plugs["bmc"].deaf = false, true
	next[statemachine.Call](r)
	r.plugs["bmc"].on = true
	r.until(statemachine.OffSpent)
	r.plugs["bmc"].deaf = false
	r.until(statemachine.Recovered)
	assert.Equal(t, []agent.Action{off, off, on}, r.plugs["bmc"].commands)
}

func TestDeviceIsReadTwiceHalfASecondApart(t *testing.T) {
	r := newRig(t, bmc())
	r.until(statemachine.Verified)
	require.Len(t, r.status().Evidence, 1)
	e := r.status().Evidence[0]
	assert.Equal(t, r.status().Jobs[0], e.Op)
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
		r := newRig(t, planOf(nodeplan.Level{feed("bmc")}, nodeplan.Level{feed("pdu")}))
		r.plugs["bmc"].delay = delay
		call := next[statemachine.Call](r)
		assert.Equal(t, "bmc", call.Device)
		sent := r.elapsed()
		assert.Equal(t, want, next[statemachine.Write](r).Reason)
		assert.Less(t, r.elapsed()-sent, 4*time.Second)
	}
	r := newRig(t, bmc())
	r.plugs["bmc"].delay = 4 * time.Second
	r.until(statemachine.OffSeen)
	assert.Len(t, r.plugs["bmc"].commands, 1, "where there is no other it has longer")
}

func TestCommandIsSentAgainOnlyAfterItHasSettled(t *testing.T) {
	r := newRig(t, bmc())
	r.plugs["bmc"].deaf = true
	next[statemachine.Call](r)
	sent := r.elapsed()
	r.until(statemachine.OffSpent)
	assert.GreaterOrEqual(t, r.elapsed()-sent, 30*time.Second)
	r.until(statemachine.PowerFailed)
	assert.Equal(t, []agent.Action{off, off, off}, r.plugs["bmc"].commands, "as often as a step may be tried")
	assert.Equal(t, v1alpha1.PhaseError, r.status().Phase)
	assert.Equal(t, v1alpha1.StageError, r.status().Status)
}

func TestUnreadableDeviceGetsOneCommand(t *testing.T) {
	r := newRig(t, bmc())
	r.plugs["bmc"].silent = true
	r.phase(v1alpha1.PhaseError)
	assert.Equal(t, []agent.Action{off}, r.plugs["bmc"].commands)
	r.phase(v1alpha1.PhaseGivenUp)
	assert.Equal(t, []agent.Action{off, on, on, on}, r.plugs["bmc"].commands,
		"a restart does not send another; power comes back as well as it can")
}

func TestNewProcessWaitsForTheCallOfTheOneBeforeAndForTheDevice(t *testing.T) {
	plan := bmc()
	d := plan.PowerManagement[0][0].Device
	d.Timeout, d.Settle = 20*time.Second, 40*time.Second
	r := newRig(t, plan)
	r.plugs["bmc"].deaf = true
	next[statemachine.Call](r)
	r.restart()
	began := r.elapsed()
	r.until(statemachine.OffSpent)
	assert.GreaterOrEqual(t, r.elapsed()-began, time.Minute)
}

func TestIntentThatThisProcessDidNotWriteIsNeverSent(t *testing.T) {
	r := newRig(t, bmc())
	r.until(statemachine.OffIntent)
	r.restart()
	r.until(statemachine.OffSpent)
	assert.Empty(t, r.plugs["bmc"].commands)
	r.until(statemachine.OffSeen)
	assert.Equal(t, []agent.Action{off}, r.plugs["bmc"].commands)
	assert.Equal(t, []string{"fence-c0ffee0012-1-1", "fence-c0ffee0012-1-2"}, r.status().Jobs)
}

func TestCommandThatIsLateIsNotSent(t *testing.T) {
	r := newRig(t, bmc())
	r.until(statemachine.OffIntent)
	r.step() // the look
	call, ok := r.decide().(statemachine.Call)
	require.True(t, ok)
	assert.False(t, call.Late(r.now))
	r.pass(2 * time.Second)
	assert.True(t, call.Late(r.now))
	assert.IsType(t, statemachine.Look{}, r.decide())
	suspended := r.now
	suspended.Wall = suspended.Wall.Add(-2 * time.Second)
	assert.True(t, call.Late(suspended), "whatever clock it is by")
}

func TestNodeThatReturnsBetweenIntentAndCommandKeepsItsPower(t *testing.T) {
	for name, back := range map[string]func(*rig){
		"Ready":          func(r *rig) { r.back() },
		"deleted":        func(r *rig) { r.node.Missing = true },
		"being deleted":  func(r *rig) { r.node.Leaving = true },
		"another's name": func(r *rig) { r.node.UID = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, bmc())
			r.until(statemachine.OffIntent)
			back(r)
			r.until(statemachine.IntentCancelled)
			assert.Equal(t, v1alpha1.PhaseRestoring, r.status().Phase)
			for !r.deleted && !r.status().Phase.Ended() {
				r.step()
			}
			assert.Empty(t, r.plugs["bmc"].commands)
		})
	}
}

func TestDeviceThatSomebodySwitchesOnIsNotSwitchedOffAgain(t *testing.T) {
	r := newRig(t, bmc())
	r.until(statemachine.AllOff)
	r.plugs["bmc"].on = true
	r.pass(time.Second) // the readings by which it was seen off would count
	r.until(statemachine.Contradicted)
	r.phase(v1alpha1.PhaseGivenUp)
	assert.Equal(t, []agent.Action{off}, r.plugs["bmc"].commands)
	assert.Equal(t, v1alpha1.AbortGaveUp, r.status().Abort)
}

func TestNodeThatWorksWithoutPowerIsAnother(t *testing.T) {
	r := newRig(t, bmc())
	r.until(statemachine.AllOff)
	r.shown = func(n *statemachine.Node) { n.Ready, n.Failing, n.Renewal = true, false, r.elapsed().String() }
	r.until(statemachine.WrongPlugSuspected)
	assert.Equal(t, v1alpha1.PhaseRestoring, r.status().Phase)
	assertCondition(t, r, v1alpha1.ConditionDeviceSuspect, "True")
	assert.Empty(t, r.status().Released)
}

// A dead BMC gets no command: it could prove nothing, and no one would know how to leave it
// in the end. So the machine can come back without it.
func TestDeviceThatCannotBeReadIsNotCommandedWhereAnotherTakesItsPlace(t *testing.T) {
	r := newRig(t,
		planOf(nodeplan.Level{feed("bmc")}, nodeplan.Level{feed("a"), feed("b")}))
	r.plugs["bmc"].silent = true
	r.phase(v1alpha1.PhasePowering)
	began := r.elapsed()
	r.until(statemachine.AllOff)
	assert.Less(t, r.elapsed()-began, 6*time.Second)
	r.phase(v1alpha1.PhaseFinal)
	assert.Empty(t, r.plugs["bmc"].commands)
	assert.Equal(t, []agent.Action{off, on}, r.plugs["a"].commands)
	assert.Equal(t, []agent.Action{off, on}, r.plugs["b"].commands)
}

// Each renewal of the Lease makes the fence look at everything again. It must not forget what it
// compares with.
func TestNodeThatWorksWithoutPowerIsFoundOutByNewsOfIt(t *testing.T) {
	for _, every := range []time.Duration{2 * time.Second, 10 * time.Second} {
		r := newRig(t, bmc())
		r.until(statemachine.AllOff)
		r.shown = func(n *statemachine.Node) {
			n.Ready, n.Failing, n.Renewal = true, false, fmt.Sprint(r.elapsed()/every)
		}
		for end := r.elapsed() + 5*time.Minute; r.status().Phase == v1alpha1.PhaseVerifying && r.elapsed() < end; {
			renewal := (r.elapsed()/every + 1) * every
			if wait, ok := r.decide().(statemachine.Wait); ok && r.elapsed()+wait.For >= renewal {
				r.pass(renewal - r.elapsed())
				r.memory = r.memory.Changed()
				continue
			}
			r.step()
		}
		assertCondition(t, r, v1alpha1.ConditionDeviceSuspect, "True")
	}
}

func TestReadyThatIsLeftFromBeforeIsWaitedOut(t *testing.T) {
	r := newRig(t, bmc())
	r.until(statemachine.AllOff)
	r.shown = func(n *statemachine.Node) { n.Ready, n.Failing = true, false }
	r.rest(40 * time.Second)
	require.Equal(t, v1alpha1.PhaseVerifying, r.status().Phase)
	r.shown = nil
	r.until(statemachine.Verified)
}

func TestConfigurationIsPinnedByTheFirstCommand(t *testing.T) {
	t.Run("no further device is switched off", func(t *testing.T) {
		r := newRig(t, planOf(nodeplan.Level{feed("a"), feed("b")}))
		r.until(statemachine.OffSeen)
		r.plan.Hash = "2"
		r.rest(10 * time.Minute)
		require.NotNil(t, r.status().Hold)
		assert.Equal(t, "ConfigurationChanged", r.status().Hold.Reason)
		assert.Empty(t, r.plugs["b"].commands)
		r.plan.Hash = "1"
		r.until(statemachine.Verified)
	})
	t.Run("other devices prove nothing", func(t *testing.T) {
		r := newRig(t, bmc())
		r.until(statemachine.AllOff)
		r.plan = planOf(nodeplan.Level{feed("other")})
		r.plan.Hash = "2"
		r.plugs["other"] = &plug{}
		r.rest(10 * time.Minute)
		assert.Equal(t, v1alpha1.PhaseVerifying, r.status().Phase)
		r.shown = func(n *statemachine.Node) { n.Ready, n.Failing = true, false }
		r.rest(20 * time.Second)
		assert.Equal(t, v1alpha1.AbortNodeReady, r.status().Abort, "the node is looked at nevertheless")
	})
	t.Run("before it the new one counts", func(t *testing.T) {
		r := newRig(t, bmc())
		r.phase(v1alpha1.PhasePowering)
		r.plan.Hash = "2"
		r.until(statemachine.OffSeen)
		assert.Equal(t, "2", r.status().ConfigHash)
	})
	t.Run("a device that is gone from it is waited for, until an admin says otherwise", func(t *testing.T) {
		r := newRig(t, bmc())
		next[statemachine.Call](r)
		r.plan = planOf(nodeplan.Level{feed("other")})
		r.plan.Hash = "2"
		r.plugs["other"] = &plug{on: true}
		r.annotate(v1alpha1.AnnotationStop, "restore")
		r.rest(time.Hour)
		assert.Equal(t, "ConfigurationChanged", r.status().Hold.Reason)
		r.annotate(v1alpha1.AnnotationStop, "hold")
		r.phase(v1alpha1.PhaseGivenUp)
		assertCondition(t, r, v1alpha1.ConditionPoweredOff, "Unknown")
	})
}

// The record of a node was deleted, and there is another one: incidents and operations are counted
// from 1 again. Jobs have the IDs of operations as their names, and outlive the record.
func TestOperationsOfTwoRecordsOfANodeHaveOtherIDs(t *testing.T) {
	first, second := newRig(t, bmc()), newRig(t, bmc())
	second.fence.UID = "decaf000-1234-5678"
	for _, r := range []*rig{first, second} {
		r.until(statemachine.OffIntent)
	}
	assert.Equal(t, first.status().NodeUID, second.status().NodeUID)
	assert.Equal(t, []string{"fence-c0ffee0012-1-1"}, first.status().Jobs)
	assert.Equal(t, []string{"fence-decaf00012-1-1"}, second.status().Jobs)
}
