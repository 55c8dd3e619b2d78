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
func (c *cluster) requireUnclear() {
	c.t.Helper()
	c.rest(time.Hour)
	require.NotNil(c.t, c.status().Hold, c.transcript())
	assert.Equal(c.t, "OffUnclear", c.status().Hold.Reason)
	assert.Contains(c.t, c.status().Hold.Message, "device vm reads off, and this fence has not switched it off")
	assert.Equal(c.t, v1alpha1.PhasePowering, c.status().Phase)
	assert.Equal(c.t, v1alpha1.ReleasedNo, c.status().Released)
}

func TestAmbiguousDeviceProvesWhatTheFenceItselfHasSwitchedOff(t *testing.T) {
	c := newCluster(t, vm())
	c.until(statemachine.Recovered)
	assert.Equal(t, []agent.Action{off, on}, c.plugs["vm"].commands)
}

// Somebody has suspended the machine: its node is lost for that, and returns when the machine goes on.
func TestSuspendedMachineIsNotOff(t *testing.T) {
	for name, suspend := range map[string]func(c *cluster){
		"before the fence": func(*cluster) {},
		"between the reading and the command": func(c *cluster) {
			c.plugs["vm"].suspended = false
			c.until(statemachine.OffIntent)
			c.plugs["vm"].suspended = true
		},
		"and the fencer has crashed after its command": func(c *cluster) {
			c.plugs["vm"].suspended, c.plugs["vm"].deaf = false, true
			next[statemachine.Call](c)
			c.plugs["vm"].suspended, c.plugs["vm"].deaf = true, false
			c.restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, vm())
			c.plugs["vm"].suspended = true
			suspend(c)
			c.requireUnclear()
			c.plugs["vm"].suspended = false
			c.back()
			c.until(statemachine.Recovered)
			assert.NotContains(t, c.plugs["vm"].commands, on)
		})
	}
}

func TestSuspendedMachineThatGoesOnAndStaysLostIsSwitchedOff(t *testing.T) {
	c := newCluster(t, vm())
	c.plugs["vm"].suspended = true
	c.requireUnclear()
	c.plugs["vm"].suspended = false
	c.until(statemachine.Recovered)
	assert.Equal(t, []agent.Action{off, on}, c.plugs["vm"].commands)
}

func TestAdminConfirmsThatASuspendedMachineHasEnded(t *testing.T) {
	c := newCluster(t, vm())
	c.plugs["vm"].suspended = true
	c.requireUnclear()
	c.plugs["vm"].on, c.plugs["vm"].suspended = false, false
	c.annotate(v1alpha1.AnnotationConfirmOff, "1")
	c.until(statemachine.Confirmed)
	c.until(statemachine.WorkloadsFreed)
}

func TestAnotherLevelIsUsedForASuspendedMachine(t *testing.T) {
	plan := vm()
	plan.PowerManagement = append(plan.PowerManagement, nodeplan.Level{feed("host")})
	c := newCluster(t, plan)
	c.plugs["vm"].suspended = true
	c.until(statemachine.Verified)
	assert.Empty(t, c.plugs["vm"].commands)
	assert.Equal(t, []agent.Action{off}, c.plugs["host"].commands)
}

func TestCommissionOfAMachineThatIsSuspendedMeanwhileProvesNothing(t *testing.T) {
	c := newTrial(t, vm())
	c.until(statemachine.OffIntent)
	c.plugs["vm"].suspended = true
	c.until(statemachine.CommissionFailed)
	assert.Equal(t, "device vm was told to switch off, and reads off, perhaps not because of that",
		c.status().Commission.Failed)
}
