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

// readings are the devices that were read, or were to be read ahead, in steps.
func readings(steps []statemachine.Step) (names []string) {
	for _, step := range steps {
		switch step := step.(type) {
		case statemachine.Read:
			names = append(names, step.Devices...)
		case statemachine.Wait:
			names = append(names, step.Ahead...)
		}
	}
	return names
}

func TestDevicesAreReadBeforeTheWaitIsOver(t *testing.T) {
	plan := bmc()
	plan.PowerManagement = []nodeplan.Level{{feed("pdu a"), feed("pdu b")}, {feed("bmc")}}
	c := newCluster(t, plan)
	c.until(statemachine.NodeIsolated)
	began, before := c.elapsed(), len(c.steps)
	c.until(statemachine.PowerWaitOver)
	assert.Equal(t, []string{"pdu a", "pdu b"}, readings(c.steps[before:]), "all of the first level, once")
	assert.InDelta(t, nodeplan.Defaults().PowerWait, c.elapsed()-began, float64(100*time.Millisecond))
	before = len(c.steps)
	next[statemachine.Call](c)
	assert.Empty(t, readings(c.steps[before:]), "before the first command")
}

func TestDevicesAreNotReadAheadOfNoWait(t *testing.T) {
	plan := bmc()
	plan.PowerWait = time.Nanosecond
	c := newCluster(t, plan)
	c.until(statemachine.PowerWaitOver)
	assert.Empty(t, readings(c.steps))
	next[statemachine.Call](c)
	assert.Equal(t, []string{"bmc"}, readings(c.steps))
}

// The policy, or an API server without an answer, may stand between the wait and the command.
func TestReadingOfSomeTimeAgoIsTakenAgain(t *testing.T) {
	for age, again := range map[time.Duration][]string{
		3 * time.Second: nil, 10 * time.Second: {"bmc"},
		time.Hour: {"bmc"},
	} {
		c := newCluster(t, bmc())
		c.until(statemachine.PowerWaitOver)
		before := len(c.steps)
		c.pass(age)
		next[statemachine.Call](c)
		assert.Equal(t, again, readings(c.steps[before:]), "%v", age)
	}
}

// A device that is switched off by somebody after it was read ahead is not believed to be off
// because of this fence: its own two readings come later.
func TestWhatWasReadAheadProvesNothing(t *testing.T) {
	c := newCluster(t, bmc())
	c.until(statemachine.NodeIsolated)
	c.plugs["bmc"].on = false // before it is read ahead
	c.until(statemachine.PowerWaitOver)
	call := next[statemachine.Call](c)
	require.Equal(t, agent.ActionOff, call.Op.Action)
	before := len(c.steps)
	c.until(statemachine.OffSeen)
	assert.Equal(t, []string{"bmc", "bmc"}, readings(c.steps[before:]))
}

// The admin pulls the plug after it was read ahead, and says so.
func TestConfirmationAfterThePlugWasReadAhead(t *testing.T) {
	c := newCluster(t, bmc())
	c.until(statemachine.PowerWaitOver)
	c.plugs["bmc"].on = false
	c.annotate(v1alpha1.AnnotationConfirmOff, "1")
	c.until(statemachine.Confirmed)
	assert.NotContains(t, c.transcript(), "refused")
}
