package statemachine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

func TestPlansThatAreRefused(t *testing.T) {
	var many nodeplan.Level
	for i := range statemachine.MaxDevices + 1 {
		many = append(many, feed(fmt.Sprint(i)))
	}
	for message, plan := range map[string]nodeplan.Plan{
		`statemachine: Device: must be in one place of a plan (got "a" twice)`: planOf(
			nodeplan.Level{feed("a")}, nodeplan.Level{feed("a")},
		),
		"statemachine: Devices: must be at most 30 (got 31)": planOf(many),
	} {
		assert.EqualError(t, statemachine.Validate(plan), message)
	}
	assert.NoError(t, statemachine.Validate(nodeplan.Plan{}))
	assert.NoError(t, statemachine.Validate(storage()))
}
