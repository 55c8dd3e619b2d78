package policy_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// healthy is a worker that nothing is wrong with.
func healthy(name string) policy.NodeFacts {
	return policy.NodeFacts{
		Name: name, UID: "uid-" + name, Selected: true, EverReady: policy.True, Ready: policy.True,
		LeaseSilentFor: 3 * time.Second, FenceReady: policy.True,
	}
}

// fail is what a node looks like that has been dead for d.
func fail(n *policy.NodeFacts, d time.Duration) {
	n.Ready, n.FailingFor, n.NotReadyFor, n.LeaseSilentFor = policy.Unknown, d, d, d
}

// workers are healthy nodes w0, w1 and so on.
func workers(n int) []policy.NodeFacts {
	nodes := make([]policy.NodeFacts, n)
	for i := range nodes {
		nodes[i] = healthy(fmt.Sprintf("w%d", i))
	}
	return nodes
}

// watched is the state of a process that has seen these nodes for a while, when they were all well.
func watched(nodes []policy.NodeFacts, limits policy.Limits, until time.Time) policy.State {
	well := slices.Clone(nodes)
	for i := range well {
		n := healthy(well[i].Name)
		n.Zone, n.ControlPlane = well[i].Zone, well[i].ControlPlane
		well[i] = n
	}
	var s policy.State
	for d := 2 * time.Minute; d > 0; d -= 10 * time.Second {
		s = s.Observe(policy.View{Now: until.Add(-d), Nodes: well}, limits)
	}
	return s
}

// lost asks about the first node of a cluster in which the first u have been dead for a minute, and
// the last one decides.
func lost(nodes []policy.NodeFacts, u int) policy.Input {
	for i := range u {
		fail(&nodes[i], time.Minute)
	}
	return policy.Input{
		View:   policy.View{Now: now, Nodes: nodes},
		State:  watched(nodes, policy.Limits{}, now),
		Target: policy.Target{Name: nodes[0].Name, UID: nodes[0].UID, Devices: 1},
		Self:   policy.Self{Node: nodes[len(nodes)-1].Name, LastAPIWrite: now.Add(-time.Second)},
	}
}

// blocking are the gates that do not let pass.
func blocking(d policy.Decision) []string {
	var gates []string
	for _, r := range d.Gates {
		if r.Verdict != policy.Allow {
			gates = append(gates, r.Gate)
		}
	}
	return gates
}
