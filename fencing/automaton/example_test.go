package automaton_test

import (
	"fmt"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/automaton"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// A controller does one step after another. This one does not touch anything but variables.
func ExampleTransition() {
	var (
		fence = &v1alpha1.NodeFence{Node: "worker-1"}
		plan  = automaton.Plan{Hash: "v1", Levels: [][]automaton.Device{{{Name: "bmc", Known: true}}}}
		now   = clock.Reading{Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		power = v1alpha1.PowerOn
	)
	memory := automaton.NewMemory(now)
	for fence.Status.Released != v1alpha1.ReleasedDone {
		step := automaton.Transition(automaton.Input{Fence: fence, Plan: plan, Memory: memory, Now: now})
		before, outcome := fence.Status, automaton.Outcome{Began: now}
		switch step := step.(type) {
		case automaton.Look:
			outcome.Node = automaton.Node{UID: "6f1d", Failing: true}
		case automaton.Write:
			fmt.Println(step.Row)
			fence.Status = step.Status
		case automaton.Read:
			outcome.Powers = []v1alpha1.Power{power}
		case automaton.Call:
			fmt.Println("-", step.Op.Action, step.Device)
			power = v1alpha1.PowerOff
		case automaton.Act:
			fmt.Println("-", step.Method)
		case automaton.Release:
			fmt.Println("-", step.Part)
		case automaton.SetFinalizer:
			fence.Finalizers = []string{v1alpha1.Finalizer}
		case automaton.Wait:
			now.Wall, now.Monotonic = now.Wall.Add(step.For), now.Monotonic+step.For
		}
		outcome.Ended = now
		memory = memory.After(&before, step, outcome)
	}
	// Output:
	// Begun
	// Lasted
	// - mark-unschedulable
	// NodeIsolated
	// PowerWaitOver
	// OffIntent
	// - off bmc
	// OffSeen
	// AllOff
	// Verified
	// ReleaseBegun
	// - DeletePods
	// - Taint
	// PodsDeleted
	// - AwaitDetach
	// - Untaint
	// WorkloadsFreed
}
