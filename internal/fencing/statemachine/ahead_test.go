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
	r := newRig(t, plan)
	r.until(statemachine.NodeIsolated)
	began, before := r.elapsed(), len(r.steps)
	r.until(statemachine.PowerWaitOver)
	assert.Equal(t, []string{"pdu a", "pdu b"}, readings(r.steps[before:]), "all of the first level, once")
	assert.InDelta(t, nodeplan.Defaults().PowerWait, r.elapsed()-began, float64(100*time.Millisecond))
	before = len(r.steps)
	next[statemachine.Call](r)
	assert.Empty(t, readings(r.steps[before:]), "before the first command")
}

func TestDevicesAreNotReadAheadOfNoWait(t *testing.T) {
	plan := bmc()
	plan.PowerWait = time.Nanosecond
	r := newRig(t, plan)
	r.until(statemachine.PowerWaitOver)
	assert.Empty(t, readings(r.steps))
	next[statemachine.Call](r)
	assert.Equal(t, []string{"bmc"}, readings(r.steps))
}

// The policy, or an API server without an answer, may stand between the wait and the command.
func TestReadingOfSomeTimeAgoIsTakenAgain(t *testing.T) {
	for age, again := range map[time.Duration][]string{
		3 * time.Second: nil, 10 * time.Second: {"bmc"},
		time.Hour: {"bmc"},
	} {
		r := newRig(t, bmc())
		r.until(statemachine.PowerWaitOver)
		before := len(r.steps)
		r.pass(age)
		next[statemachine.Call](r)
		assert.Equal(t, again, readings(r.steps[before:]), "%v", age)
	}
}

// A device that is switched off by somebody after it was read ahead is not believed to be off
// because of this fence: its own two readings come later.
func TestWhatWasReadAheadProvesNothing(t *testing.T) {
	r := newRig(t, bmc())
	r.until(statemachine.NodeIsolated)
	r.plugs["bmc"].on = false // before it is read ahead
	r.until(statemachine.PowerWaitOver)
	call := next[statemachine.Call](r)
	require.Equal(t, agent.ActionOff, call.Op.Action)
	before := len(r.steps)
	r.until(statemachine.OffSeen)
	assert.Equal(t, []string{"bmc", "bmc"}, readings(r.steps[before:]))
}

// The admin pulls the plug after it was read ahead, and says so.
func TestConfirmationAfterThePlugWasReadAhead(t *testing.T) {
	r := newRig(t, bmc())
	r.until(statemachine.PowerWaitOver)
	r.plugs["bmc"].on = false
	r.annotate(v1alpha1.AnnotationConfirmOff, "1")
	r.until(statemachine.Confirmed)
	assert.NotContains(t, r.transcript(), "refused")
}
