package policy_test

import (
	"fmt"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// A switch fails, and with it half of the nodes of a zone. A minute later somebody plugs in the
// cable.
func Example() {
	limits := policy.Limits{CoolDown: 2 * time.Minute}
	clock := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	nodes := workers(10) // in a controller: from Nodes, their Leases, and the records of fences
	var state policy.State

	ask := func() {
		d := policy.Decide(policy.Input{
			View:   policy.View{Now: clock, Nodes: nodes},
			State:  state,
			Limits: limits,
			Target: policy.Target{Name: "w0", UID: "uid-w0", Devices: 1},
			Self:   policy.Self{Node: "w9", LastAPIWrite: clock.Add(-time.Second)},
		})
		fmt.Printf("%s %v %s: %s\n", clock.Format(time.TimeOnly), d.Verdict, d.Reason, d.Message)
	}
	pass := func(d time.Duration) {
		for end := clock.Add(d); clock.Before(end); {
			clock = clock.Add(10 * time.Second)
			for i := range nodes {
				if n := &nodes[i]; n.Ready != policy.True {
					fail(n, n.FailingFor+10*time.Second)
				}
			}
			state = state.Observe(policy.View{Now: clock, Nodes: nodes}, limits)
		}
	}

	ask()
	pass(time.Minute)
	ask()
	for i := range 5 {
		fail(&nodes[i], 0)
	}
	pass(time.Minute)
	ask()
	for i := 1; i < 5; i++ { // all but w0 return
		nodes[i] = healthy(nodes[i].Name)
	}
	pass(10 * time.Second)
	ask()
	pass(2 * time.Minute)
	ask()

	// Output:
	// 12:00:00 Hold StillReady: node w0 is Ready
	// 12:01:00 Hold StillReady: node w0 is Ready
	// 12:02:00 Hold Storm: in the cluster 5 of 10 nodes are unhealthy; from 5 on (50 %) it is not they who have failed
	// 12:02:10 Wait CoolDown: the cluster was in a storm, or may have been, until 0s ago; that has to be over for 2m0s
	// 12:04:10 Allow Allowed: nothing stands in the way
}

// Nodes that may be fenced are decided on in this order.
func ExampleOrder() {
	queue := []policy.NodeFacts{
		{Name: "control-plane-0", ControlPlane: true, FailingFor: time.Hour},
		{Name: "worker-1", FailingFor: time.Minute},
		{Name: "worker-0", FailingFor: time.Minute},
		{Name: "worker-2", FailingFor: 5 * time.Minute},
	}
	for _, n := range policy.Order(queue) {
		fmt.Println(n.Name)
	}
	// Output:
	// worker-2
	// worker-0
	// worker-1
	// control-plane-0
}

// Ten pods are to be deleted at 30 per minute. The controller asks every 3 s.
func ExampleBudget() {
	limits := policy.Limits{PodsPerMinute: 30}
	clock := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	var budget policy.Budget
	for left := 10; left > 0; clock = clock.Add(3 * time.Second) {
		var granted int
		budget, granted = budget.Take(clock, left, limits)
		left -= granted
		fmt.Printf("%s %d may go\n", clock.Format(time.TimeOnly), granted)
	}
	// Output:
	// 12:00:00 0 may go
	// 12:00:03 1 may go
	// 12:00:06 2 may go
	// 12:00:09 1 may go
	// 12:00:12 2 may go
	// 12:00:15 1 may go
	// 12:00:18 2 may go
	// 12:00:21 1 may go
}
