package lab_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

func TestMachineTellsWhatHangsOnItsFeeds(t *testing.T) {
	t.Parallel()
	var fed []bool
	machine := lab.NewMachine(nil)
	first, second := machine.Feed(), machine.Feed()
	machine.Fed(func(powered bool) { fed = append(fed, powered) })
	for _, step := range []struct {
		plug *lab.Plug
		to   bool
		want []bool
	}{
		{first, false, nil},
		{machine.Chassis(), false, nil},
		{second, false, []bool{false}},
		{machine.Chassis(), true, []bool{false}},
		{first, true, []bool{false, true}},
		{second, true, []bool{false, true}},
	} {
		step.plug.Press(step.to)
		assert.Equal(t, step.want, fed)
	}
}

func TestMachineRunsWhileItsChassisIsOnAndAFeedHasPower(t *testing.T) {
	t.Parallel()
	var powers []bool
	machine := lab.NewMachine(func(on bool) { powers = append(powers, on) })
	assert.True(t, machine.On(), "without feeds, too")
	first, second := machine.Feed(), machine.Feed()
	for _, step := range []struct {
		plug *lab.Plug
		to   bool
		want bool
	}{
		{first, false, true},
		{first, false, true},
		{second, false, false},
		{machine.Chassis(), false, false},
		{first, true, false},
		{machine.Chassis(), true, true},
		{second, true, true},
		{machine.Chassis(), false, false},
	} {
		step.plug.Press(step.to)
		assert.Equal(t, step.to, step.plug.On())
		assert.Equal(t, step.want, machine.On())
	}
	assert.Equal(t, []bool{false, true, false}, powers)
	for i, change := range machine.Changes() {
		assert.Equal(t, powers[i], change.On)
		assert.WithinDuration(t, time.Now(), change.At, patience)
	}
	assert.Empty(t, machine.Chassis().Commands(), "it was switched by hand")
}
