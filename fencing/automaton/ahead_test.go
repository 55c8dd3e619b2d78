package automaton_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/automaton"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// readings are the devices that were read, or were to be read ahead, in steps.
func readings(steps []automaton.Step) (names []string) {
	for _, step := range steps {
		switch step := step.(type) {
		case automaton.Read:
			names = append(names, step.Devices...)
		case automaton.Wait:
			names = append(names, step.Ahead...)
		}
	}
	return names
}

func TestDevicesAreReadBeforeTheWaitIsOver(t *testing.T) {
	plan := bmc()
	plan.Levels = [][]automaton.Device{{device("pdu a"), device("pdu b")}, {device("bmc")}}
	r := newRig(t, plan)
	r.until(automaton.NodeIsolated)
	began, before := r.elapsed(), len(r.steps)
	r.until(automaton.PowerWaitOver)
	assert.Equal(t, []string{"pdu a", "pdu b"}, readings(r.steps[before:]), "all of the first level, once")
	assert.InDelta(t, automaton.DefaultPowerWait, r.elapsed()-began, float64(100*time.Millisecond))
	before = len(r.steps)
	next[automaton.Call](r)
	assert.Empty(t, readings(r.steps[before:]), "before the first command")
}

func TestDevicesAreNotReadAheadOfNoWait(t *testing.T) {
	plan := bmc()
	plan.PowerWait = time.Nanosecond
	r := newRig(t, plan)
	r.until(automaton.PowerWaitOver)
	assert.Empty(t, readings(r.steps))
	next[automaton.Call](r)
	assert.Equal(t, []string{"bmc"}, readings(r.steps))
}

// The policy, or an API server without an answer, may stand between the wait and the command.
func TestReadingOfSomeTimeAgoIsTakenAgain(t *testing.T) {
	for age, again := range map[time.Duration][]string{3 * time.Second: nil, 10 * time.Second: {"bmc"}, time.Hour: {"bmc"}} {
		r := newRig(t, bmc())
		r.until(automaton.PowerWaitOver)
		before := len(r.steps)
		r.pass(age)
		next[automaton.Call](r)
		assert.Equal(t, again, readings(r.steps[before:]), "%v", age)
	}
}

// A device that is switched off by somebody after it was read ahead is not believed to be off because of this fence: its own two readings come later.
func TestWhatWasReadAheadProvesNothing(t *testing.T) {
	r := newRig(t, bmc())
	r.until(automaton.NodeIsolated)
	r.plugs["bmc"].on = false // before it is read ahead
	r.until(automaton.PowerWaitOver)
	call := next[automaton.Call](r)
	require.Equal(t, v1alpha1.ActionOff, call.Op.Action)
	before := len(r.steps)
	r.until(automaton.OffSeen)
	assert.Equal(t, []string{"bmc", "bmc"}, readings(r.steps[before:]))
}

// The admin pulls the plug after it was read ahead, and says so.
func TestConfirmationAfterThePlugWasReadAhead(t *testing.T) {
	r := newRig(t, bmc())
	r.until(automaton.PowerWaitOver)
	r.plugs["bmc"].on = false
	r.annotate(v1alpha1.AnnotationConfirmOff, "1")
	r.until(automaton.Confirmed)
	assert.NotContains(t, r.transcript(), "refused")
}
