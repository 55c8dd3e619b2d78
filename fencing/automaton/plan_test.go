package automaton_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/fencing/automaton"
)

func TestPlansThatAreRefused(t *testing.T) {
	var many []automaton.Device
	for i := range automaton.MaxDevices + 1 {
		many = append(many, device(fmt.Sprint(i)))
	}
	for message, plan := range map[string]automaton.Plan{
		"automaton: Device: must have a name":                               {Hash: "1", Levels: [][]automaton.Device{{{}}}},
		`automaton: Device: must be in one place of a plan (got "a" twice)`: {Hash: "1", Levels: [][]automaton.Device{{device("a")}, {device("a")}}},
		`automaton: Device "a": Settle: must not be negative (got -1s)`:     {Hash: "1", Levels: [][]automaton.Device{{{Name: "a", Settle: -time.Second}}}},
		`automaton: Device "a": Timeout: must be whole seconds (got 1.5s)`:  {Hash: "1", Levels: [][]automaton.Device{{{Name: "a", Timeout: 1500 * time.Millisecond}}}},
		"automaton: Devices: must be at most 30 (got 31)":                   {Hash: "1", Levels: [][]automaton.Device{many}},
		"automaton: Hash: must not be empty where there are devices":        {Levels: [][]automaton.Device{{device("a")}}},
		"automaton: Levels: must have a device each (got none in level 1)":  {Levels: [][]automaton.Device{{}}},
		"automaton: BootGrace: must not be negative (got -1m0s)":            {BootGrace: -time.Minute},
		`automaton: PowerOn: must be always, never or manual (got "yes")`:   {PowerOn: "yes"},
		`automaton: DeleteNode: must go with PowerOn never (got "always")`:  {DeleteNode: true, PowerOn: automaton.PowerOnAlways},
		"automaton: Retries: must not be negative (got -1)":                 {Retries: -1},
	} {
		assert.EqualError(t, plan.Validate(), message)
	}
	assert.NoError(t, automaton.Plan{}.Validate())
	assert.NoError(t, storage().Validate())
}
