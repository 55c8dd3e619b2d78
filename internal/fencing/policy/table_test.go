package policy_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// TestStormTable is the table of the package documentation.
func TestStormTable(t *testing.T) {
	for _, c := range []struct {
		members, unhealthy int
		verdict            policy.Verdict
		reason             string
	}{
		{1, 1, policy.Hold, policy.ReasonOwnPartition},
		{2, 1, policy.Allow, policy.ReasonAllowed},
		{2, 2, policy.Hold, policy.ReasonStorm},
		{3, 1, policy.Allow, policy.ReasonAllowed},
		{3, 2, policy.Hold, policy.ReasonStorm},
		{4, 1, policy.Allow, policy.ReasonAllowed},
		{4, 2, policy.Hold, policy.ReasonStorm},
		{5, 2, policy.Allow, policy.ReasonAllowed},
		{5, 3, policy.Hold, policy.ReasonStorm},
		{7, 3, policy.Allow, policy.ReasonAllowed},
		{7, 4, policy.Hold, policy.ReasonStorm},
		{100, 30, policy.Allow, policy.ReasonAllowed},
		{100, 49, policy.Allow, policy.ReasonAllowed},
		{100, 50, policy.Hold, policy.ReasonStorm},
		{100, 60, policy.Hold, policy.ReasonStorm},
	} {
		t.Run(fmt.Sprintf("%d of %d", c.unhealthy, c.members), func(t *testing.T) {
			nodes := workers(c.members)
			if c.members == c.unhealthy && c.members > 1 {
				// Without a witness: another node must be alive, and is no member.
				nodes = append(nodes, healthy("outside"))
				nodes[c.members].Selected = false
			}
			in := lost(nodes, c.unhealthy)
			if c.members == 1 {
				in.Self = policy.Self{OutsideCluster: true, LastAPIWrite: in.Self.LastAPIWrite}
			}
			d := policy.Decide(in)
			assert.Equal(t, c.verdict, d.Verdict, d.Message)
			assert.Equal(t, c.reason, d.Reason, d.Message)
		})
	}
}

func TestTwoNodesNeedTheLeaseOfTheOther(t *testing.T) {
	in := lost(workers(2), 1)
	require.Equal(t, policy.Allow, policy.Decide(in).Verdict)

	in.Self = policy.Self{OutsideCluster: true, LastAPIWrite: in.Self.LastAPIWrite}
	in.Nodes[1].LeaseSilentFor = policy.NotSeen
	d := policy.Decide(in)
	assert.Equal(t, policy.ReasonOwnPartition, d.Reason, d.Message)
}

func TestZoneOfTwoIsARackAndNotTwoMachines(t *testing.T) {
	nodes := workers(10)
	for i := range nodes {
		nodes[i].Zone = "b"
	}
	nodes[0].Zone, nodes[1].Zone = "a", "a"
	d := policy.Decide(lost(nodes, 2))
	assert.Equal(t, policy.Hold, d.Verdict)
	assert.Equal(t, policy.ReasonZoneStorm, d.Reason, d.Message)
	assert.Contains(t, d.Message, "in zone a 2 of 2 nodes are unhealthy")
}

func TestControlPlaneTable(t *testing.T) {
	for _, c := range []struct {
		nodes, healthy int
		verdict        policy.Verdict
	}{
		{1, 0, policy.Hold},
		{2, 1, policy.Hold},
		{3, 2, policy.Allow},
		{3, 1, policy.Hold},
		{4, 3, policy.Allow},
		{4, 2, policy.Hold},
		{5, 4, policy.Allow},
		{5, 3, policy.Allow},
		{5, 2, policy.Hold},
	} {
		t.Run(fmt.Sprintf("%d of %d", c.healthy, c.nodes), func(t *testing.T) {
			nodes := workers(c.nodes + 20) // enough for whatever fails not to be a storm
			for i := range c.nodes {
				nodes[i].ControlPlane = true
			}
			d := policy.Decide(lost(nodes, c.nodes-c.healthy))
			assert.Equal(t, c.verdict, d.Verdict, d.Message)
			if c.verdict == policy.Hold {
				assert.Equal(t, []string{policy.GateControlPlane}, blocking(d))
				assert.Equal(t, policy.ReasonQuorum, d.Reason)
			}
		})
	}
}

// TestZeroInputIsNotAllowed is about forgotten fields.
func TestZeroInputIsNotAllowed(t *testing.T) {
	d := policy.Decide(policy.Input{})
	assert.Equal(t, policy.Deny, d.Verdict)
	require.Len(t, d.Gates, 17)
	for _, r := range d.Gates {
		assert.NotEmpty(t, r.Message, r.Gate)
	}
	assert.Subset(t, blocking(d), []string{
		policy.GateIdentity, policy.GateMachine, policy.GateSelection, policy.GateOwnHost, policy.GateDuration,
		policy.GateReadiness, policy.GateOwnPartition,
	})
	assert.NotEqual(t, policy.Allow, policy.Decision{}.Verdict)

	// Nor is a node that is only known to exist.
	d = policy.Decide(policy.Input{
		View:   policy.View{Now: now, Nodes: []policy.NodeFacts{{Name: "w0", UID: "u"}}},
		Target: policy.Target{Name: "w0", UID: "u"},
	})
	assert.NotEqual(t, policy.Allow, d.Verdict)
}

func TestAllIsInPlainWords(t *testing.T) {
	d := policy.Decide(lost(workers(5), 2))
	require.Equal(t, policy.Allow, d.Verdict, d.Message)
	assert.Equal(t, "nothing stands in the way", d.Message)
	var messages []string
	for _, r := range d.Gates {
		messages = append(messages, fmt.Sprintf("%v: %s", r.Gate, r.Message))
		assert.Empty(t, r.Reason)
		assert.Zero(t, r.After)
	}
	assert.Equal(t, []string{
		"Identity: node w0 is the one that failed, by its UID uid-w0",
		"Machine: no node that works has the machine of node w0",
		"Selection: node w0 is selected",
		"OwnHost: the controller runs on node w4",
		"Admin: not paused",
		"Duration: node w0 has been failing for 1m0s, and 30s is enough",
		"Readiness: node w0 has 1 device, and the last check was good",
		"OwnPartition: 3 of 4 other nodes renewed their Leases within 40s",
		"Storage: whether the controller reaches the storage does not matter",
		"Storm: in the cluster 2 of 5 nodes are unhealthy; nothing is fenced from 3 on (50 %)",
		"ZoneStorm: there are no zones to compare",
		"CoolDown: no storm within 5m0s",
		"ControlPlane: node w0 is not of the control plane",
		"Repeats: node w0 has been fenced 0 times in 1h0m0s; the limit is 3",
		"Return: after 0 fences in a row the node did not return; 2 are the limit",
		"Rate: 0 fences began in 1h0m0s; the limit is 10",
		"Concurrency: 0 fences are under way; the limit is 1",
	}, messages)
}

func TestNothingIsChangedByDeciding(t *testing.T) {
	in, same := lost(workers(5), 2), lost(workers(5), 2)
	policy.Decide(in)
	assert.Equal(t, same, in)
	assert.Equal(t, policy.Decide(same), policy.Decide(in))
}
