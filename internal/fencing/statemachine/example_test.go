package statemachine_test

import (
	"fmt"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

// A controller does one step after another. This one does not touch anything but variables.
func ExampleTransition() {
	var (
		fence = &v1alpha1.NodeFence{Node: "worker-1"}
		plan  = nodeplan.Defaults()
		known = map[string]bool{"bmc": true}
		now   = clock.Reading{Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		power = agent.PowerOn
	)
	plan.Hash, plan.PowerManagement = "v1", []nodeplan.Level{{{
		Action: agent.ActionOff, Device: &nodeplan.Device{Key: "bmc", OffIsProof: true},
	}}}
	memory := statemachine.NewMemory(now)
	for fence.Status.Released != v1alpha1.ReleasedDone {
		step := statemachine.Transition(statemachine.Input{
			Fence: fence, Plan: plan, Known: known, Memory: memory, Now: now,
		})
		before, outcome := fence.Status, statemachine.Outcome{Began: now}
		switch step := step.(type) {
		case statemachine.Look:
			outcome.Node = statemachine.Node{UID: "6f1d", Failing: true}
		case statemachine.Write:
			fmt.Println(step.Reason)
			fence.Status = step.Status
		case statemachine.Read:
			outcome.Powers = []agent.Power{power}
		case statemachine.Call:
			fmt.Println("-", step.Op.Action, step.Device)
			power = agent.PowerOff
		case statemachine.Act:
			fmt.Println("-", step.Method)
		case statemachine.Release:
			fmt.Println("-", step.Part)
		case statemachine.SetFinalizer:
			fence.Finalizers = []string{v1alpha1.Finalizer}
		case statemachine.Wait:
			now.Wall, now.Monotonic = now.Wall.Add(step.For), now.Monotonic+step.For
		}
		outcome.Ended = now
		memory = memory.After(&before, step, outcome)
	}
	// Output:
	// Begun
	// NotReadyTimeout
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
