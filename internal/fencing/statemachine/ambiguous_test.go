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

// ambiguous is a device that reads off while its machine is suspended, too.
func ambiguous(name string) nodeplan.Method {
	m := feed(name)
	m.Device.OffIsProof = false
	return m
}

func vm() nodeplan.Plan {
	return planOf(nodeplan.Level{ambiguous("vm")})
}

// requireUnclear fails unless a fence waits for an admin, and has released nothing.
func (r *rig) requireUnclear() {
	r.t.Helper()
	r.rest(time.Hour)
	require.NotNil(r.t, r.status().Hold, r.transcript())
	assert.Equal(r.t, "OffUnclear", r.status().Hold.Reason)
	assert.Contains(r.t, r.status().Hold.Message, "device vm reads off, and this fence has not switched it off")
	assert.Equal(r.t, v1alpha1.PhasePowering, r.status().Phase)
	assert.Equal(r.t, v1alpha1.ReleasedNo, r.status().Released)
}

func TestAmbiguousDeviceProvesWhatTheFenceItselfHasSwitchedOff(t *testing.T) {
	r := newRig(t, vm())
	r.until(statemachine.Recovered)
	assert.Equal(t, []agent.Action{off, on}, r.plugs["vm"].commands)
}

// Somebody has suspended the machine: its node is lost for that, and returns when the machine goes on.
func TestSuspendedMachineIsNotOff(t *testing.T) {
	for name, suspend := range map[string]func(r *rig){
		"before the fence": func(*rig) {},
		"between the reading and the command": func(r *rig) {
			r.plugs["vm"].suspended = false
			r.until(statemachine.OffIntent)
			r.plugs["vm"].suspended = true
		},
		"and the fencer has crashed after its command": func(r *rig) {
			r.plugs["vm"].suspended, r.plugs["vm"].deaf = false, true
			next[statemachine.Call](r)
			r.plugs["vm"].suspended, r.plugs["vm"].deaf = true, false
			r.restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, vm())
			r.plugs["vm"].suspended = true
			suspend(r)
			r.requireUnclear()
			r.plugs["vm"].suspended = false
			r.back()
			r.until(statemachine.Recovered)
			assert.NotContains(t, r.plugs["vm"].commands, on)
		})
	}
}

func TestSuspendedMachineThatGoesOnAndStaysLostIsSwitchedOff(t *testing.T) {
	r := newRig(t, vm())
	r.plugs["vm"].suspended = true
	r.requireUnclear()
	r.plugs["vm"].suspended = false
	r.until(statemachine.Recovered)
	assert.Equal(t, []agent.Action{off, on}, r.plugs["vm"].commands)
}

func TestAdminConfirmsThatASuspendedMachineHasEnded(t *testing.T) {
	r := newRig(t, vm())
	r.plugs["vm"].suspended = true
	r.requireUnclear()
	r.plugs["vm"].on, r.plugs["vm"].suspended = false, false
	r.annotate(v1alpha1.AnnotationConfirmOff, "1")
	r.until(statemachine.Confirmed)
	r.until(statemachine.WorkloadsFreed)
}

func TestAnotherLevelIsUsedForASuspendedMachine(t *testing.T) {
	plan := vm()
	plan.PowerManagement = append(plan.PowerManagement, nodeplan.Level{feed("host")})
	r := newRig(t, plan)
	r.plugs["vm"].suspended = true
	r.until(statemachine.Verified)
	assert.Empty(t, r.plugs["vm"].commands)
	assert.Equal(t, []agent.Action{off}, r.plugs["host"].commands)
}

func TestCommissionOfAMachineThatIsSuspendedMeanwhileProvesNothing(t *testing.T) {
	r := newTrial(t, vm())
	r.until(statemachine.OffIntent)
	r.plugs["vm"].suspended = true
	r.until(statemachine.CommissionFailed)
	assert.Equal(t, "device vm was told to switch off, and reads off, perhaps not because of that",
		r.status().Commission.Failed)
}
