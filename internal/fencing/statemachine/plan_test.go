package statemachine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

func TestPlansThatAreRefused(t *testing.T) {
	var many []statemachine.Device
	for i := range statemachine.MaxDevices + 1 {
		many = append(many, device(fmt.Sprint(i)))
	}
	for message, plan := range map[string]statemachine.Plan{
		"statemachine: Device: must have a name": {
			Hash:   "1",
			Levels: [][]statemachine.Device{{{}}},
		},
		`statemachine: Device: must be in one place of a plan (got "a" twice)`: {
			Hash:   "1",
			Levels: [][]statemachine.Device{{device("a")}, {device("a")}},
		},
		`statemachine: Device "a": Settle: must not be negative (got -1s)`: {
			Hash:   "1",
			Levels: [][]statemachine.Device{{{Name: "a", Settle: -time.Second}}},
		},
		`statemachine: Device "a": Timeout: must be whole seconds (got 1.5s)`: {
			Hash:   "1",
			Levels: [][]statemachine.Device{{{Name: "a", Timeout: 1500 * time.Millisecond}}},
		},
		"statemachine: Devices: must be at most 30 (got 31)": {
			Hash:   "1",
			Levels: [][]statemachine.Device{many},
		},
		"statemachine: Hash: must not be empty where there are devices": {
			Levels: [][]statemachine.Device{{device("a")}},
		},
		"statemachine: Levels: must have a device each (got none in level 1)": {Levels: [][]statemachine.Device{{}}},
		"statemachine: BootGrace: must not be negative (got -1m0s)":           {BootGrace: -time.Minute},
		`statemachine: PowerOn: must be always, never or manual (got "yes")`:  {PowerOn: "yes"},
		`statemachine: DeleteNode: must go with PowerOn never (got "always")`: {
			DeleteNode: true,
			PowerOn:    statemachine.PowerOnAlways,
		},
		"statemachine: Retries: must not be negative (got -1)": {Retries: -1},
	} {
		assert.EqualError(t, plan.Validate(), message)
	}
	assert.NoError(t, statemachine.Plan{}.Validate())
	assert.NoError(t, storage().Validate())
}
