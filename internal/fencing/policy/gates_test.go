package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// sample asks about worker w0 of zone a, which has been dead for a minute. w1 to w9 are also in
// zone a, w10 to w19 in zone b; c0 to c4 are of the control plane, in zone c. The controller runs
// on c4.
func sample() policy.Input {
	nodes := workers(20)
	for i := range nodes {
		nodes[i].Zone = "a"
		if i >= 10 {
			nodes[i].Zone = "b"
		}
	}
	for i := range 5 {
		n := healthy(fmt.Sprintf("c%d", i))
		n.ControlPlane, n.Zone = true, "c"
		nodes = append(nodes, n)
	}
	return lost(nodes, 1)
}

// about has the sample ask about another node, which has been dead for a minute as well.
func about(in *policy.Input, name string) {
	fail(node(in, name), time.Minute)
	in.Target.Name, in.Target.UID = name, "uid-"+name
}

func node(in *policy.Input, name string) *policy.NodeFacts {
	for i := range in.Nodes {
		if in.Nodes[i].Name == name {
			return &in.Nodes[i]
		}
	}
	panic("no node " + name)
}

func remove(in *policy.Input, name string) {
	for i := range in.Nodes {
		if in.Nodes[i].Name == name {
			in.Nodes = append(in.Nodes[:i], in.Nodes[i+1:]...)
			return
		}
	}
}

func kill(in *policy.Input, names ...string) {
	for _, name := range names {
		fail(node(in, name), time.Second)
	}
}

// numbered are the names of nodes.
func numbered(prefix string, from, to int) []string {
	var names []string
	for i := from; i <= to; i++ {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

func started(in *policy.Input, node string, ago ...time.Duration) {
	for _, d := range ago {
		in.Starts = append(in.Starts, policy.Start{Node: node, At: now.Add(-d)})
	}
}

// stranded has a node that did not return from its fence.
func stranded(in *policy.Input, name string, ago time.Duration) {
	node(in, name).Past = policy.Past{Began: now.Add(-ago), Outcome: policy.OutcomeStranded}
}

// silence is what a state has not seen for a time: it has to observe again.
func forget(in *policy.Input, observed time.Duration) {
	in.State = policy.State{}
	for d := observed; d >= 0; d -= 10 * time.Second {
		in.State = in.State.Observe(policy.View{Now: now.Add(-d), Nodes: in.Nodes}, in.Limits)
	}
}

// stormed has the nodes named be dead until some time ago.
func stormed(in *policy.Input, ago time.Duration, names ...string) {
	before := *in
	before.Nodes = append([]policy.NodeFacts(nil), in.Nodes...)
	kill(&before, names...)
	in.State = watched(in.Nodes, in.Limits, now.Add(-ago-10*time.Second))
	in.State = in.State.Observe(policy.View{Now: now.Add(-ago - 10*time.Second), Nodes: before.Nodes}, in.Limits)
	for d := ago; d >= 0; d -= 10 * time.Second {
		in.State = in.State.Observe(policy.View{Now: now.Add(-d), Nodes: in.Nodes}, in.Limits)
	}
}

// cases are each gate on both sides of its boundary. Where there is a reason, the gate of that
// section, and no other, stands in the way.
var cases = []struct {
	gate   string
	name   string
	change func(*policy.Input)

	verdict policy.Verdict
	reason  string
	after   time.Duration
}{
	{
		policy.GateIdentity, "a Node that is being deleted", func(in *policy.Input) { node(in, "w0").Deleting = true },
		policy.Deny, policy.ReasonNodeGone, 0,
	},
	{
		policy.GateIdentity, "an autoscaler's taint", func(in *policy.Input) { node(in, "w0").AutoscalerTaint = true },
		policy.Deny, policy.ReasonNodeGone, 0,
	},
	{policy.GateIdentity, "other nodes go", func(in *policy.Input) {
		node(in, "w1").Deleting, node(in, "w2").AutoscalerTaint = true, true
	}, policy.Allow, "", 0},
	{policy.GateIdentity, "the fence of an earlier Node of the name", func(in *policy.Input) {
		in.Nodes = append([]policy.NodeFacts{{Name: "w0", UID: "earlier", Gone: true, Fence: policy.FenceGivenUp}},
			in.Nodes...)
	}, policy.Allow, "", 0},

	{policy.GateMachine, "the machine works under another name", func(in *policy.Input) {
		node(in, "w0").Machine.SystemUUID = "4C4C4544-0051-3010-8051-B4C04F4A4E32"
		node(in, "w1").Machine.SystemUUID = "4c4c4544-0051-3010-8051-b4c04f4a4e32"
	}, policy.Hold, policy.ReasonSameMachine, 0},
	{policy.GateMachine, "the same with a name that is not Ready", func(in *policy.Input) {
		node(in, "w0").Machine.SystemUUID = "4c4c4544-0051-3010-8051-b4c04f4a4e32"
		node(in, "w1").Machine.SystemUUID = "4c4c4544-0051-3010-8051-b4c04f4a4e32"
		fail(node(in, "w1"), time.Second)
	}, policy.Allow, "", 0},
	{policy.GateMachine, "an address", func(in *policy.Input) {
		node(in, "w0").Machine.Addresses = []string{"10.0.0.7", "fd00::7"}
		node(in, "w1").Machine.Addresses = []string{"10.0.0.8", "fd00::7"}
	}, policy.Hold, policy.ReasonSameMachine, 0},
	{policy.GateMachine, "an address that is internal and external", func(in *policy.Input) {
		node(in, "w0").Machine.Addresses = []string{"10.0.0.7"}
		node(in, "w1").Machine.Addresses = []string{"10.0.0.7", "10.0.0.7"}
	}, policy.Hold, policy.ReasonSameMachine, 0},
	{policy.GateMachine, "a machine ID, with a UUID that many machines have", func(in *policy.Input) {
		m := policy.Machine{SystemUUID: "03000200-0400-0500-0006-000700080009", ID: "5d1b"}
		node(in, "w0").Machine, node(in, "w1").Machine = m, m
	}, policy.Hold, policy.ReasonSameMachine, 0},
	{policy.GateMachine, "another machine ID, with a UUID that many machines have", func(in *policy.Input) {
		for _, name := range []string{"w0", "w1"} {
			node(in, name).Machine = policy.Machine{SystemUUID: "03000200-0400-0500-0006-000700080009", ID: name}
		}
	}, policy.Allow, "", 0},
	{policy.GateMachine, "the machine ID of an image, with UUIDs", func(in *policy.Input) {
		node(in, "w0").Machine = policy.Machine{SystemUUID: "4c4c4544-0051-3010-8051-b4c04f4a4e32", ID: "5d1b"}
		node(in, "w1").Machine = policy.Machine{SystemUUID: "4c4c4544-0051-3010-8051-b4c04f4a4e33", ID: "5d1b"}
	}, policy.Allow, "", 0},
	{policy.GateMachine, "a UUID that several nodes have which work", func(in *policy.Input) {
		for _, name := range []string{"w0", "w1", "w2"} {
			node(in, name).Machine.SystemUUID = "11111111-2222-3333-4444-555555555555"
		}
	}, policy.Allow, "", 0},
	{policy.GateMachine, "only taints", func(in *policy.Input) {
		node(in, "w0").Machine.Addresses = []string{"10.0.0.7"}
		node(in, "w1").Machine.Addresses = []string{"10.0.0.7"}
		in.Target.Act = policy.Isolate
	}, policy.Allow, "", 0},
	{policy.GateMachine, "it came back under another name while it is fenced", func(in *policy.Input) {
		node(in, "w0").Machine.Addresses = []string{"10.0.0.7"}
		node(in, "w1").Machine.Addresses = []string{"10.0.0.7"}
		in.Target.Switched = true
	}, policy.Hold, policy.ReasonSameMachine, 0},

	{
		policy.GateSelection, "not selected", func(in *policy.Input) { node(in, "w0").Selected = false }, policy.Deny,
		policy.ReasonExcluded, 0,
	},
	{
		policy.GateSelection, "excluded", func(in *policy.Input) { node(in, "w0").Excluded = true }, policy.Deny,
		policy.ReasonExcluded, 0,
	},

	{policy.GateOwnHost, "its own host", func(in *policy.Input) {
		in.Self.Node = "w0"
		node(in, "w0").LeaseSilentFor = 0 // or it would be cut off
	}, policy.Hold, policy.ReasonOwnHost, 0},
	{policy.GateOwnHost, "its own host, and switched by the leader before", func(in *policy.Input) {
		in.Self.Node, in.Target.Switched = "w0", true
		node(in, "w0").LeaseSilentFor = 0
	}, policy.Hold, policy.ReasonOwnHost, 0},
	{policy.GateOwnHost, "an own host that is not known", func(in *policy.Input) {
		in.Self.Node = "" // whose Lease is not known either
	}, policy.Hold, policy.ReasonOwnHost, 0},
	{
		policy.GateOwnHost, "outside of the cluster",
		func(in *policy.Input) { in.Self.Node, in.Self.OutsideCluster = "", true }, policy.Allow, "", 0,
	},

	{
		policy.GateAdmin, "paused", func(in *policy.Input) { in.Paused = "by ann, until the switch is replaced" },
		policy.Hold, policy.ReasonPaused, 0,
	},

	{policy.GateDuration, "30 s", func(in *policy.Input) { fail(node(in, "w0"), 30*time.Second) }, policy.Allow, "", 0},
	{
		policy.GateDuration, "not quite 30 s", func(in *policy.Input) { fail(node(in, "w0"), 30*time.Second-1) },
		policy.Wait, policy.ReasonSoonUnhealthy, 1,
	},
	{
		policy.GateDuration, "a limit of the node, reached",
		func(in *policy.Input) { in.Target.NotReadyFor = time.Minute }, policy.Allow, "", 0,
	},
	{policy.GateDuration, "a limit of the node, not reached", func(in *policy.Input) {
		in.Target.NotReadyFor = 90 * time.Second
	}, policy.Wait, policy.ReasonSoonUnhealthy, 30 * time.Second},
	{policy.GateDuration, "a limit of the node that is none", func(in *policy.Input) {
		in.Target.NotReadyFor = -time.Hour
		fail(node(in, "w0"), time.Second)
	}, policy.Wait, policy.ReasonSoonUnhealthy, 29 * time.Second},
	{
		policy.GateDuration, "for a time not known", func(in *policy.Input) {
			node(in, "w0").FailingFor = policy.NotSeen
		},
		policy.Wait, policy.ReasonSoonUnhealthy, 30 * time.Second,
	},
	{policy.GateDuration, "not Ready for a time not known", func(in *policy.Input) {
		node(in, "w0").NotReadyFor = policy.NotSeen
	}, policy.Wait, policy.ReasonSoonUnhealthy, 30 * time.Second},
	{
		policy.GateDuration, "Ready again", func(in *policy.Input) { node(in, "w0").Ready = policy.True }, policy.Hold,
		policy.ReasonStillReady, 0,
	},
	{policy.GateDuration, "Ready again, said to be not", func(in *policy.Input) {
		node(in, "w0").Ready, in.Target.Trigger = policy.True, "Ready"
	}, policy.Hold, policy.ReasonStillReady, 0},
	{policy.GateDuration, "Ready again, and fenced for that also if it is", func(in *policy.Input) {
		node(in, "w0").Ready = policy.True
		in.Limits.FenceReadyNodes = []string{"KernelDeadlock"}
	}, policy.Hold, policy.ReasonStillReady, 0},
	{
		policy.GateDuration, "no Ready condition", func(in *policy.Input) { node(in, "w0").Ready = policy.Missing },
		policy.Hold, policy.ReasonJoining, 0,
	},
	{
		policy.GateDuration, "never Ready", func(in *policy.Input) { node(in, "w0").EverReady = policy.False },
		policy.Hold, policy.ReasonJoining, 0,
	},
	{
		policy.GateDuration, "not known whether ever Ready",
		func(in *policy.Input) { node(in, "w0").EverReady = policy.Missing }, policy.Hold, policy.ReasonJoining, 0,
	},
	{policy.GateDuration, "not known whether ever Ready, and switched", func(in *policy.Input) {
		node(in, "w0").EverReady, in.Target.Switched = policy.Unknown, true
	}, policy.Allow, "", 0},
	{policy.GateDuration, "switched a while ago, by another process", func(in *policy.Input) {
		fail(node(in, "w0"), 10*time.Second)
		in.Target.Switched = true
	}, policy.Wait, policy.ReasonSoonUnhealthy, 20 * time.Second},
	{
		policy.GateDuration, "Ready False", func(in *policy.Input) {
			node(in, "w0").Ready = policy.False
		}, policy.Allow,
		"", 0,
	},
	{
		policy.GateDuration, "a Ready node with another problem, to be powered off",
		func(in *policy.Input) { troubled(in, policy.PowerOff) }, policy.Hold, policy.ReasonStillReady, 0,
	},
	{policy.GateDuration, "a Ready node with another problem, to be powered off all the same", func(in *policy.Input) {
		troubled(in, policy.PowerOff)
		in.Limits.FenceReadyNodes = []string{"Other", "KernelDeadlock"}
	}, policy.Allow, "", 0},
	{
		policy.GateDuration, "a Ready node with another problem, to be cut off from its storage",
		func(in *policy.Input) { troubled(in, policy.SwitchOff) }, policy.Allow, "", 0,
	},
	{
		policy.GateDuration, "a Ready node with another problem, to be isolated",
		func(in *policy.Input) { troubled(in, policy.Isolate) }, policy.Allow, "", 0,
	},
	{
		policy.GateDuration, "an act that does not exist", func(in *policy.Input) { troubled(in, 9) }, policy.Hold,
		policy.ReasonStillReady, 0,
	},
	{policy.GateDuration, "an old problem of a node that has just become not Ready", func(in *policy.Input) {
		troubled(in, policy.PowerOff)
		n := node(in, "w0")
		n.Ready, n.NotReadyFor = policy.False, 10*time.Second
	}, policy.Wait, policy.ReasonSoonUnhealthy, 20 * time.Second},
	{policy.GateDuration, "a problem that is too new", func(in *policy.Input) {
		troubled(in, policy.Isolate)
		node(in, "w0").FailingFor = 10 * time.Second
	}, policy.Wait, policy.ReasonSoonUnhealthy, 20 * time.Second},

	{policy.GateReadiness, "errors in the configuration", func(in *policy.Input) {
		in.Target.ConfigErrors = []string{"no address"}
	}, policy.Hold, policy.ReasonNotConfigured, 0},
	{
		policy.GateReadiness, "no device", func(in *policy.Input) { in.Target.Devices = 0 }, policy.Hold,
		policy.ReasonNotConfigured, 0,
	},
	{policy.GateReadiness, "no device, for an isolation that needs none yet", func(in *policy.Input) {
		in.Target.Devices, in.Target.Act = 0, policy.Isolate
	}, policy.Hold, policy.ReasonNotConfigured, 0},
	{policy.GateReadiness, "no device, and none needed", func(in *policy.Input) {
		in.Target.Devices, in.Target.WithoutPower, in.Target.Act = 0, true, policy.Isolate
	}, policy.Allow, "", 0},
	{policy.GateReadiness, "no device, none needed, and asked for", func(in *policy.Input) {
		in.Target.Devices, in.Target.WithoutPower = 0, true
	}, policy.Hold, policy.ReasonNotConfigured, 0},
	{policy.GateReadiness, "devices that do not work", func(in *policy.Input) {
		node(in, "w0").FenceReady = policy.False
	}, policy.Hold, policy.ReasonNotConfigured, 0},
	{policy.GateReadiness, "devices that were not checked", func(in *policy.Input) {
		node(in, "w0").FenceReady = policy.Unknown
	}, policy.Hold, policy.ReasonNotConfigured, 0},
	{policy.GateReadiness, "devices that were never checked", func(in *policy.Input) {
		node(in, "w0").FenceReady = policy.Missing
	}, policy.Hold, policy.ReasonNotConfigured, 0},
	{policy.GateReadiness, "devices that stop working by what was switched", func(in *policy.Input) {
		node(in,
			"w0").FenceReady, in.Target.Switched, in.Target.ConfigErrors = policy.False, true,
			[]string{"edited meanwhile"}
	}, policy.Allow, "", 0},
	{
		policy.GateReadiness, "invalid limits", func(in *policy.Input) { in.Limits.MaxStarts = -1 }, policy.Hold,
		policy.ReasonNotConfigured, 0,
	},
	{policy.GateReadiness, "invalid limits, and switched", func(in *policy.Input) {
		in.Limits.StormPercent, in.Target.Switched = 101, true
	}, policy.Hold, policy.ReasonNotConfigured, 0},

	{
		policy.GateOwnPartition, "a write 15 s ago",
		func(in *policy.Input) { in.Self.LastAPIWrite = now.Add(-15 * time.Second) }, policy.Allow, "", 0,
	},
	{policy.GateOwnPartition, "a write more than 15 s ago", func(in *policy.Input) {
		in.Self.LastAPIWrite = now.Add(-15*time.Second - 1)
	}, policy.Hold, policy.ReasonOwnPartition, 0},
	{
		policy.GateOwnPartition, "a write that was confirmed meanwhile",
		func(in *policy.Input) { in.Self.LastAPIWrite = now.Add(time.Second) }, policy.Allow, "", 0,
	},
	{policy.GateOwnPartition, "a write in the future", func(in *policy.Input) {
		in.Self.LastAPIWrite = now.Add(time.Minute)
	}, policy.Hold, policy.ReasonOwnPartition, 0},
	{
		policy.GateOwnPartition, "no write", func(in *policy.Input) { in.Self.LastAPIWrite = time.Time{} }, policy.Hold,
		policy.ReasonOwnPartition, 0,
	},
	{
		policy.GateOwnPartition, "its own Lease silent for 40 s",
		func(in *policy.Input) { node(in, "c4").LeaseSilentFor = 40 * time.Second }, policy.Allow, "", 0,
	},
	{policy.GateOwnPartition, "its own Lease silent for longer", func(in *policy.Input) {
		node(in, "c4").LeaseSilentFor = 40*time.Second + 1
	}, policy.Hold, policy.ReasonOwnPartition, 0},
	{policy.GateOwnPartition, "its own Lease never seen to be renewed", func(in *policy.Input) {
		node(in, "c4").LeaseSilentFor = policy.NotSeen
	}, policy.Hold, policy.ReasonOwnPartition, 0},
	{
		policy.GateOwnPartition, "its own node not there", func(in *policy.Input) { in.Self.Node = "elsewhere" },
		policy.Hold, policy.ReasonOwnPartition, 0,
	},
	{
		policy.GateOwnPartition, "no Lease is renewed", func(in *policy.Input) { alone(in, 40*time.Second+1) },
		policy.Hold, policy.ReasonOwnPartition, 0,
	},
	{policy.GateOwnPartition, "no Lease but the target's", func(in *policy.Input) {
		alone(in, policy.NotSeen)
		node(in, "w0").LeaseSilentFor = 0
	}, policy.Hold, policy.ReasonOwnPartition, 0},
	{policy.GateOwnPartition, "no Lease, and switched", func(in *policy.Input) {
		alone(in, policy.NotSeen)
		in.Target.Switched = true
	}, policy.Hold, policy.ReasonOwnPartition, 0},
	{
		policy.GateOwnPartition, "one Lease is renewed", func(in *policy.Input) { alone(in, 40*time.Second) },
		policy.Allow, "", 0,
	},
	{
		policy.GateOwnPartition, "just begun", func(in *policy.Input) { in.State = policy.State{} }, policy.Hold,
		policy.ReasonOwnPartition, 40 * time.Second,
	},
	{
		policy.GateOwnPartition, "observed for 30 s", func(in *policy.Input) {
			forget(in, 30*time.Second)
		}, policy.Hold,
		policy.ReasonOwnPartition, 10 * time.Second,
	},
	{
		policy.GateOwnPartition, "observed for 40 s", func(in *policy.Input) {
			forget(in, 40*time.Second)
		}, policy.Allow,
		"", 0,
	},
	{policy.GateOwnPartition, "not observed for 40 s", func(in *policy.Input) {
		in.State = watched(in.Nodes, in.Limits, now.Add(-30*time.Second))
	}, policy.Allow, "", 0},
	{policy.GateOwnPartition, "not observed for longer", func(in *policy.Input) {
		in.State = watched(in.Nodes, in.Limits, now.Add(-31*time.Second))
	}, policy.Hold, policy.ReasonOwnPartition, 40 * time.Second},

	{
		policy.GateStorage, "reached", func(in *policy.Input) {
			in.Limits.RequireStorage, in.Storage = true, policy.True
		},
		policy.Allow, "", 0,
	},
	{policy.GateStorage, "not reached", func(in *policy.Input) {
		in.Limits.RequireStorage, in.Storage = true, policy.False
	}, policy.Hold, policy.ReasonStorageUnreachable, 0},
	{policy.GateStorage, "not known", func(in *policy.Input) {
		in.Limits.RequireStorage, in.Storage = true, policy.Unknown
	}, policy.Hold, policy.ReasonStorageUnreachable, 0},
	{
		policy.GateStorage, "forgotten", func(in *policy.Input) { in.Limits.RequireStorage = true }, policy.Hold,
		policy.ReasonStorageUnreachable, 0,
	},
	{policy.GateStorage, "not reached, and switched", func(in *policy.Input) {
		in.Limits.RequireStorage, in.Storage, in.Target.Switched = true, policy.False, true
	}, policy.Hold, policy.ReasonStorageUnreachable, 0},
	{policy.GateStorage, "does not matter", func(in *policy.Input) { in.Storage = policy.False }, policy.Allow, "", 0},
	{
		policy.GateStorage, "lost by the node", func(in *policy.Input) {
			node(in, "w0").StorageLost = true
		}, policy.Hold,
		policy.ReasonStorageUnreachable, 0,
	},
	{
		policy.GateStorage, "lost by the node through the fence",
		func(in *policy.Input) { node(in, "w0").StorageLost, in.Target.Switched = true, true }, policy.Allow, "", 0,
	},

	// 25 members: 12 are 1200 of 1250.
	{policy.GateStorm, "12 of 25", func(in *policy.Input) {
		kill(in, append(numbered("w", 1, 4), numbered("w", 10, 16)...)...)
		unzone(in)
	}, policy.Allow, "", 0},
	{policy.GateStorm, "13 of 25", func(in *policy.Input) {
		kill(in, append(numbered("w", 1, 4), numbered("w", 10, 17)...)...)
		unzone(in)
	}, policy.Hold, policy.ReasonStorm, 0},
	{policy.GateStorm, "13 of 25, and switched", func(in *policy.Input) {
		kill(in, append(numbered("w", 1, 4), numbered("w", 10, 17)...)...)
		in.Target.Switched = true
	}, policy.Allow, "", 0},
	{policy.GateStorm, "13 of 25, soon unhealthy, silent, being fenced or booting", func(in *policy.Input) {
		for i := 10; i <= 12; i++ {
			node(in, fmt.Sprint("w", i)).LeaseSilentFor = 41 * time.Second
			node(in, fmt.Sprint("w", i+3)).FailingFor = 1
			node(in, fmt.Sprint("w", i+6)).Fence = policy.FenceQueued
		}
		node(in, "w1").Fence, node(in, "w2").Fence = policy.FenceBooting, policy.FenceBooting
		fail(node(in, "w3"), time.Hour)
		node(in, "w3").Fence = policy.FenceGivenUp
		unzone(in)
	}, policy.Hold, policy.ReasonStorm, 0},
	{policy.GateStorm, "12 of 25, and some that do not count", func(in *policy.Input) {
		kill(in, append(numbered("w", 1, 4), numbered("w", 10, 16)...)...)
		node(in, "w18").Fence = policy.FenceGivenUp // and Ready
		node(in, "w19").LeaseSilentFor = 40 * time.Second
		for i := range 5 {
			n := healthy(fmt.Sprint("x", i))
			fail(&n, time.Hour)
			n.Selected, n.Excluded, n.Deleting, n.AutoscalerTaint = i != 0, i == 1, i == 2, i == 3
			if i == 4 {
				n.EverReady = policy.False
			}
			in.Nodes = append(in.Nodes, n)
		}
		unzone(in)
	}, policy.Allow, "", 0},
	{policy.GateStorm, "12 of 25, and one that may be joining", func(in *policy.Input) {
		kill(in, append(numbered("w", 1, 4), numbered("w", 10, 16)...)...)
		n := healthy("x")
		fail(&n, time.Hour)
		n.EverReady = policy.Unknown
		in.Nodes = append(in.Nodes, n)
		unzone(in)
	}, policy.Hold, policy.ReasonStorm, 0},
	{policy.GateStorm, "all but 1 %", func(in *policy.Input) {
		in.Limits.StormPercent = 100
		kill(in, append(numbered("w", 1, 19), numbered("c", 0, 3)...)...)
		unzone(in)
	}, policy.Allow, "", 0},
	{policy.GateStorm, "2 of 25 are 8 %", func(in *policy.Input) {
		in.Limits.StormPercent = 8
		kill(in, "w1")
		unzone(in)
	}, policy.Hold, policy.ReasonStorm, 0},
	{
		policy.GateStorm, "2 of 25 are not 9 %",
		func(in *policy.Input) { in.Limits.StormPercent = 9; kill(in, "w1"); unzone(in) }, policy.Allow, "", 0,
	},
	{policy.GateStorm, "1 is none, at 1 %", func(in *policy.Input) { in.Limits.StormPercent = 1 }, policy.Allow, "", 0},

	{policy.GateZoneStorm, "4 of 10", func(in *policy.Input) { kill(in, numbered("w", 1, 3)...) }, policy.Allow, "", 0},
	{
		policy.GateZoneStorm, "5 of 10", func(in *policy.Input) { kill(in, numbered("w", 1, 4)...) }, policy.Hold,
		policy.ReasonZoneStorm, 0,
	},
	{
		policy.GateZoneStorm, "5 of 10, and switched",
		func(in *policy.Input) { kill(in, numbered("w", 1, 4)...); in.Target.Switched = true }, policy.Allow, "", 0,
	},
	{
		policy.GateZoneStorm, "all of another zone", func(in *policy.Input) { kill(in, numbered("w", 10, 19)...) },
		policy.Allow, "", 0,
	},
	{policy.GateZoneStorm, "5 of 10 that have no zone", func(in *policy.Input) {
		kill(in, numbered("w", 1, 4)...)
		for i := range 10 {
			in.Nodes[i].Zone = ""
		}
	}, policy.Hold, policy.ReasonZoneStorm, 0},

	{
		policy.GateCoolDown, "a storm until just now", func(in *policy.Input) {
			stormed(in, 0, numbered("w", 0, 12)...)
		},
		policy.Wait, policy.ReasonCoolDown, 5 * time.Minute,
	},
	{policy.GateCoolDown, "a storm until 4:50 ago", func(in *policy.Input) {
		stormed(in, 290*time.Second, numbered("w", 0, 12)...)
	}, policy.Wait, policy.ReasonCoolDown, 10 * time.Second},
	{
		policy.GateCoolDown, "a storm until 5:00 ago",
		func(in *policy.Input) { stormed(in, 300*time.Second, numbered("w", 0, 12)...) }, policy.Allow, "", 0,
	},
	{policy.GateCoolDown, "a storm until just now, and switched", func(in *policy.Input) {
		stormed(in, 0, numbered("w", 0, 12)...)
		in.Target.Switched = true
	}, policy.Allow, "", 0},
	{policy.GateCoolDown, "a storm of the zone", func(in *policy.Input) {
		stormed(in, time.Minute, numbered("w", 1, 5)...)
	}, policy.Wait, policy.ReasonCoolDown, 4 * time.Minute},
	{
		policy.GateCoolDown, "a storm of another zone",
		func(in *policy.Input) { stormed(in, time.Minute, numbered("w", 10, 15)...) }, policy.Allow, "", 0,
	},
	{policy.GateCoolDown, "two were unhealthy when this leader had observed", func(in *policy.Input) {
		kill(in, "w10")
		forget(in, 60*time.Second)
	}, policy.Wait, policy.ReasonCoolDown, 4*time.Minute + 40*time.Second},
	{
		policy.GateCoolDown, "one was unhealthy when this leader had observed",
		func(in *policy.Input) { forget(in, 60*time.Second) }, policy.Allow, "", 0,
	},

	{
		policy.GateControlPlane, "a control plane of 5 with 3 left",
		func(in *policy.Input) { about(in, "c0"); kill(in, "c1"); unzone(in) }, policy.Allow, "", 0,
	},
	{policy.GateControlPlane, "a control plane of 5 with 2 left", func(in *policy.Input) {
		about(in, "c0")
		kill(in, "c1", "c2")
		unzone(in)
	}, policy.Hold, policy.ReasonQuorum, 0},
	{policy.GateControlPlane, "a control plane of 5 with 2 left, and switched", func(in *policy.Input) {
		about(in, "c0")
		kill(in, "c1", "c2")
		in.Target.Switched = true
	}, policy.Hold, policy.ReasonQuorum, 0},
	{policy.GateControlPlane, "a control plane of 5 with 2 left, of whom one is leaving", func(in *policy.Input) {
		about(in, "c0")
		kill(in, "c1")
		node(in, "c2").Deleting = true
		unzone(in)
	}, policy.Hold, policy.ReasonQuorum, 0},
	{policy.GateControlPlane, "another one is booting", func(in *policy.Input) {
		about(in, "c0")
		node(in, "c1").Fence = policy.FenceBooting
	}, policy.Hold, policy.ReasonQuorum, 0},
	{policy.GateControlPlane, "another one is being fenced", func(in *policy.Input) {
		about(in, "c0")
		node(in, "c1").Fence = policy.FenceActive
		in.Limits.MaxConcurrent = 2
	}, policy.Hold, policy.ReasonQuorum, 0},
	{policy.GateControlPlane, "another one whose Node is gone is being fenced", func(in *policy.Input) {
		about(in, "c0")
		in.Nodes = append(in.Nodes,
			policy.NodeFacts{Name: "c5", Gone: true, ControlPlane: true, Fence: policy.FenceBooting})
	}, policy.Hold, policy.ReasonQuorum, 0},
	{
		policy.GateControlPlane, "another one is waiting for the same",
		func(in *policy.Input) { about(in, "c0"); node(in, "c1").Fence = policy.FenceQueued }, policy.Allow, "", 0,
	},
	{
		policy.GateControlPlane, "a worker is being fenced",
		func(in *policy.Input) { about(in, "c0"); node(in, "w1").Fence = policy.FenceBooting }, policy.Allow, "", 0,
	},
	{
		policy.GateControlPlane, "a worker, and one of the control plane is booting",
		func(in *policy.Input) { node(in, "c1").Fence = policy.FenceBooting }, policy.Allow, "", 0,
	},

	{
		policy.GateRepeats, "2 in an hour", func(in *policy.Input) { started(in, "w0", time.Minute, time.Hour-1) },
		policy.Allow, "", 0,
	},
	{policy.GateRepeats, "3 in an hour", func(in *policy.Input) {
		started(in, "w0", time.Minute, 2*time.Minute, time.Hour-1)
	}, policy.Hold, policy.ReasonRepeats, 0},
	{
		policy.GateRepeats, "3 in not quite an hour",
		func(in *policy.Input) { started(in, "w0", time.Minute, 2*time.Minute, time.Hour) }, policy.Allow, "", 0,
	},
	{policy.GateRepeats, "3 in an hour, and switched", func(in *policy.Input) {
		started(in, "w0", time.Minute, 2*time.Minute, 3*time.Minute)
		in.Target.Switched = true
	}, policy.Allow, "", 0},
	{policy.GateRepeats, "3 in an hour, by hand", func(in *policy.Input) {
		started(in, "w0", time.Minute, 2*time.Minute, 3*time.Minute)
		in.Target.Restarted = true
	}, policy.Allow, "", 0},
	{
		policy.GateRepeats, "held before", func(in *policy.Input) { in.Target.Repeating = true }, policy.Hold,
		policy.ReasonRepeats, 0,
	},
	{
		policy.GateRepeats, "held before, by hand",
		func(in *policy.Input) { in.Target.Repeating, in.Target.Restarted = true, true }, policy.Allow, "", 0,
	},
	{
		policy.GateRepeats, "9 of another node", func(in *policy.Input) { started(in, "w1", minutes(1, 9)...) },
		policy.Allow, "", 0,
	},
	{policy.GateRepeats, "one in the record of many views", func(in *policy.Input) {
		started(in, "w0", time.Minute)
		for range 5 {
			in.State = in.State.Observe(in.View, in.Limits)
		}
	}, policy.Allow, "", 0},
	{policy.GateRepeats, "records that were deleted", func(in *policy.Input) {
		started(in, "w0", minutes(1, 3)...)
		in.State = in.State.Observe(in.View, in.Limits)
		in.Starts = nil
	}, policy.Hold, policy.ReasonRepeats, 0},

	{
		policy.GateReturn, "one did not return", func(in *policy.Input) { stranded(in, "w1", time.Hour) },
		policy.Allow, "", 0,
	},
	{policy.GateReturn, "two did not return", func(in *policy.Input) {
		stranded(in, "w1", 20*time.Minute)
		stranded(in, "w2", 6*time.Hour-1)
	}, policy.Hold, policy.ReasonNoReturn, 0},
	{policy.GateReturn, "two did not return, one of them long ago", func(in *policy.Input) {
		stranded(in, "w1", 20*time.Minute)
		stranded(in, "w2", 6*time.Hour)
	}, policy.Allow, "", 0},
	{policy.GateReturn, "two did not return, and one between them", func(in *policy.Input) {
		stranded(in, "w1", 20*time.Minute)
		stranded(in, "w2", time.Hour)
		node(in, "w3").Past = policy.Past{Began: now.Add(-30 * time.Minute), Outcome: policy.OutcomeReturned}
	}, policy.Allow, "", 0},
	{policy.GateReturn, "two did not return, and one before them", func(in *policy.Input) {
		stranded(in, "w1", 20*time.Minute)
		stranded(in, "w2", time.Hour)
		node(in, "w3").Past = policy.Past{Began: now.Add(-2 * time.Hour), Outcome: policy.OutcomeReturned}
	}, policy.Hold, policy.ReasonNoReturn, 0},
	{policy.GateReturn, "two did not return, and the last is under way", func(in *policy.Input) {
		stranded(in, "w1", 20*time.Minute)
		stranded(in, "w2", time.Hour)
		node(in, "w3").Past = policy.Past{Began: now.Add(-time.Minute)}
	}, policy.Hold, policy.ReasonNoReturn, 0},
	{policy.GateReturn, "two did not return, and it is one of them", func(in *policy.Input) {
		stranded(in, "w0", 20*time.Minute)
		stranded(in, "w2", time.Hour)
	}, policy.Allow, "", 0},
	{policy.GateReturn, "two did not return, and one is gone", func(in *policy.Input) {
		stranded(in, "w1", 20*time.Minute)
		stranded(in, "w2", time.Hour)
		node(in, "w2").Gone = true
	}, policy.Allow, "", 0},
	{policy.GateReturn, "two did not return, and switched", func(in *policy.Input) {
		stranded(in, "w1", 20*time.Minute)
		stranded(in, "w2", time.Hour)
		in.Target.Switched = true
	}, policy.Allow, "", 0},
	{policy.GateReturn, "two did not return, by hand", func(in *policy.Input) {
		stranded(in, "w1", 20*time.Minute)
		stranded(in, "w2", time.Hour)
		in.Target.Restarted = true
	}, policy.Allow, "", 0},

	{
		policy.GateRate, "9 in an hour", func(in *policy.Input) {
			started(in, "w1", minutes(1, 9)...)
		}, policy.Allow, "",
		0,
	},
	{
		policy.GateRate, "10 in an hour", func(in *policy.Input) { started(in, "w1", minutes(1, 10)...) }, policy.Wait,
		policy.ReasonRate, 50 * time.Minute,
	},
	{
		policy.GateRate, "12 in an hour", func(in *policy.Input) { started(in, "w1", minutes(1, 12)...) }, policy.Wait,
		policy.ReasonRate, 50 * time.Minute,
	},
	{
		policy.GateRate, "10 in not quite an hour",
		func(in *policy.Input) { started(in, "w1", append(minutes(1, 9), time.Hour)...) }, policy.Allow, "", 0,
	},
	{policy.GateRate, "10 in an hour, and switched", func(in *policy.Input) {
		started(in, "w1", minutes(1, 10)...)
		in.Target.Switched = true
	}, policy.Allow, "", 0},
	{policy.GateRate, "10 in an hour, without devices", func(in *policy.Input) {
		started(in, "w1", minutes(1, 10)...)
		in.Target.Act = policy.Isolate
	}, policy.Allow, "", 0},
	{policy.GateRate, "10 in an hour, with a device", func(in *policy.Input) {
		started(in, "w1", minutes(1, 10)...)
		in.Target.Act = policy.SwitchOff
	}, policy.Wait, policy.ReasonRate, 50 * time.Minute},
	{policy.GateRate, "8 in an hour, and one that may begin", func(in *policy.Input) {
		started(in, "w1", minutes(1, 8)...)
		in.Nodes[2].Starting = true
	}, policy.Allow, "", 0},
	{policy.GateRate, "9 in an hour, and this one may begin", func(in *policy.Input) {
		started(in, "w1", minutes(1, 9)...)
		in.Nodes[0].Starting = true
	}, policy.Allow, "", 0},
	{policy.GateRate, "9 in an hour, and one that may begin", func(in *policy.Input) {
		started(in, "w1", minutes(1, 9)...)
		in.Nodes[2].Starting = true
	}, policy.Wait, policy.ReasonRate, 51 * time.Minute},
	{policy.GateRate, "10 that may begin", func(in *policy.Input) {
		for range 10 {
			n := healthy(fmt.Sprint("more", len(in.Nodes)))
			n.Starting = true
			in.Nodes = append(in.Nodes, n)
		}
	}, policy.Wait, policy.ReasonRate, time.Hour},
	{
		policy.GateRate, "10, by a clock that is ahead", func(in *policy.Input) {
			started(in, "w1", minutes(-9, 0)...)
		},
		policy.Wait, policy.ReasonRate, time.Hour,
	},

	{
		policy.GateConcurrency, "one is being fenced",
		func(in *policy.Input) { node(in, "w1").Fence = policy.FenceActive }, policy.Hold, policy.ReasonQueue, 0,
	},
	{policy.GateConcurrency, "one is being fenced, of two that may be", func(in *policy.Input) {
		node(in, "w1").Fence, in.Limits.MaxConcurrent = policy.FenceActive, 2
	}, policy.Allow, "", 0},
	{policy.GateConcurrency, "two are being fenced, of two that may be", func(in *policy.Input) {
		node(in, "w1").Fence, node(in, "w11").Fence, in.Limits.MaxConcurrent = policy.FenceActive, policy.FenceActive, 2
	}, policy.Hold, policy.ReasonQueue, 0},
	{
		policy.GateConcurrency, "one is being fenced in a way that is not known",
		func(in *policy.Input) { node(in, "w1").Fence = 99 }, policy.Hold, policy.ReasonQueue, 0,
	},
	{policy.GateConcurrency, "one whose Node is gone is being fenced", func(in *policy.Input) {
		in.Nodes = append(in.Nodes, policy.NodeFacts{Name: "x", Gone: true, Fence: policy.FenceActive})
	}, policy.Hold, policy.ReasonQueue, 0},
	{policy.GateConcurrency, "an earlier one of this name is being fenced", func(in *policy.Input) {
		in.Nodes = append(in.Nodes, policy.NodeFacts{Name: "w0", UID: "earlier", Gone: true, Fence: policy.FenceActive})
	}, policy.Hold, policy.ReasonQueue, 0},
	{policy.GateConcurrency, "others wait, boot, or were given up", func(in *policy.Input) {
		node(in, "w1").Fence, node(in, "w10").Fence, node(in,
			"w11").Fence = policy.FenceQueued, policy.FenceBooting, policy.FenceGivenUp
	}, policy.Allow, "", 0},
	{
		policy.GateConcurrency, "this one has its slot",
		func(in *policy.Input) { node(in, "w0").Fence = policy.FenceActive }, policy.Allow, "", 0,
	},
	{policy.GateConcurrency, "one is being fenced, and this one too", func(in *policy.Input) {
		node(in, "w1").Fence, in.Target.Switched = policy.FenceActive, true
	}, policy.Allow, "", 0},
	{policy.GateConcurrency, "one is being fenced, and this one needs no device", func(in *policy.Input) {
		node(in, "w1").Fence, in.Target.Act = policy.FenceActive, policy.Isolate
	}, policy.Allow, "", 0},
}

func minutes(from, to int) []time.Duration {
	var ds []time.Duration
	for i := from; i <= to; i++ {
		ds = append(ds, time.Duration(i)*time.Minute)
	}
	return ds
}

// troubled has w0 be Ready, and have had another problem for an hour.
func troubled(in *policy.Input, act policy.Act) {
	*node(in, "w0") = healthy("w0")
	node(in, "w0").Zone, node(in, "w0").FailingFor = "a", time.Hour
	in.Target.Act, in.Target.Trigger = act, "KernelDeadlock"
}

// alone leaves one Lease besides those of the target, which has been silent for d. The controller
// is elsewhere. As so many unhealthy nodes would be a storm, the others are none of its members.
func alone(in *policy.Input, d time.Duration) {
	for i := range in.Nodes {
		if n := &in.Nodes[i]; n.Name != "w0" {
			n.LeaseSilentFor, n.Selected = policy.NotSeen, false
		}
	}
	node(in, "w1").LeaseSilentFor = d
	in.Self.Node, in.Self.OutsideCluster = "", true
}

// unzone leaves only the storm gate of the cluster.
func unzone(in *policy.Input) {
	for i := range in.Nodes {
		in.Nodes[i].Zone = "one"
	}
}

func TestGates(t *testing.T) {
	for _, c := range cases {
		t.Run(fmt.Sprintf("%v/%s", c.gate, c.name), func(t *testing.T) {
			in := sample()
			c.change(&in)
			d := policy.Decide(in)
			require.Equal(t, c.verdict, d.Verdict, d.Message)
			assert.Equal(t, c.after, d.After)
			if c.verdict == policy.Allow {
				assert.Empty(t, blocking(d))
				assert.Equal(t, policy.ReasonAllowed, d.Reason)
				return
			}
			assert.Equal(t, c.reason, d.Reason)
			assert.Equal(t, c.gate, blocking(d)[0])
		})
	}
}

// TestForgottenGates leaves out each gate: something is then allowed that must not be. A storm that
// goes on is also kept off by the cool-down, which begins with it, so those are left out as well.
func TestForgottenGates(t *testing.T) {
	for _, r := range policy.Decide(sample()).Gates {
		g := r.Gate
		forgotten := []string{g}
		if g == policy.GateStorm || g == policy.GateZoneStorm {
			forgotten = append(forgotten, policy.GateCoolDown)
		}
		var caught []string
		for _, c := range cases {
			in := sample()
			c.change(&in)
			if c.gate == g && c.verdict != policy.Allow &&
				policy.DecideWithout(in, forgotten...).Verdict == policy.Allow {
				caught = append(caught, c.name)
			}
		}
		assert.NotEmpty(t, caught, "nothing depends on gate %v", g)
		t.Logf("without gate %v: %q", g, caught)
	}
}

func TestAnotherNodeIsNotTheOneThatFailed(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*policy.Input)
		message string
	}{
		{
			"gone", func(in *policy.Input) { remove(in, "w0") },
			"node w0 is gone: its machine may have another owner now",
		},
		{
			"gone but for its fence", func(in *policy.Input) { node(in, "w0").Gone = true },
			"node w0 is gone: its machine may have another owner now",
		},
		{
			"another UID", func(in *policy.Input) { node(in, "w0").UID = "later" },
			`node w0 is another one now: its UID is "later", and was "uid-w0"`,
		},
		{
			"no UID", func(in *policy.Input) { in.Target.UID = "" },
			`it is not known which node "w0" was, as no UID was recorded`,
		},
		{
			"no UIDs", func(in *policy.Input) { in.Target.UID, node(in, "w0").UID = "", "" },
			`it is not known which node "w0" was, as no UID was recorded`,
		},
		{"deleted", func(in *policy.Input) { node(in, "w0").Deleting = true }, "node w0 is being deleted"},
		{
			"about to be deleted", func(in *policy.Input) { node(in, "w0").AutoscalerTaint = true },
			"node w0 is about to be removed by an autoscaler",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, switched := range []bool{false, true} {
				in := sample()
				in.Target.Switched = switched
				c.change(&in)
				d := policy.Decide(in)
				assert.Equal(t, policy.Deny, d.Verdict)
				assert.Equal(t, policy.ReasonNodeGone, d.Reason)
				assert.Equal(t, c.message, d.Message)
			}
		})
	}
}

// TestMessages is what administrators read.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		change  func(*policy.Input)
		message string
	}{
		{func(in *policy.Input) { node(in, "w0").Excluded = true }, "node w0 is excluded from fencing by its label"},
		{
			func(in *policy.Input) { in.Self.Node = "w0" },
			"the controller runs on node w0 itself: another replica has to fence it",
		},
		{
			func(in *policy.Input) { in.Paused = "outside of the window Sat 02:00 to 04:00" },
			"paused: outside of the window Sat 02:00 to 04:00",
		},
		{
			func(in *policy.Input) { fail(node(in, "w0"), 30*time.Second-1) },
			"node w0 has been failing for 29.999s; it has to for 30s",
		},
		{
			func(in *policy.Input) { in.Target.ConfigErrors = []string{"no address", "no plug"} },
			"the configuration of node w0 has 2 errors: no address; no plug",
		},
		{
			func(in *policy.Input) { in.Limits.MaxStarts, in.Limits.StormPercent = -1, 101 },
			"the limits are invalid: fencing: Limits.StormPercent: must be from 1 to 100 (got 101); fencing: " +
				"Limits.MaxStarts: must not be negative (got -1)",
		},
		{
			func(in *policy.Input) { in.State = policy.State{} },
			"this controller has to watch the nodes for 40s before it judges them; 40s are left",
		},
		{
			func(in *policy.Input) { in.Self.LastAPIWrite = now.Add(-time.Minute) },
			"the API server last confirmed a write of this controller 1m0s ago; it has to within 15s",
		},
		{
			func(in *policy.Input) { node(in, "c4").LeaseSilentFor = policy.NotSeen },
			"the Lease of the controller's own node c4 has not been seen to be renewed; it has to be renewed within " +
				"40s",
		},
		{
			func(in *policy.Input) { node(in, "c4").LeaseSilentFor = 50 * time.Second },
			"the Lease of the controller's own node c4 was last renewed 50s ago; it has to be renewed within 40s",
		},
		{
			func(in *policy.Input) { alone(in, policy.NotSeen) },
			"of 24 other nodes none has renewed its Lease within 40s: it may be this controller that is cut off",
		},
		{
			func(in *policy.Input) { kill(in, numbered("w", 1, 14)...) },
			"in the cluster 15 of 25 nodes are unhealthy; from 13 on (50 %) it is not they who have failed",
		},
		{
			func(in *policy.Input) { kill(in, numbered("w", 1, 4)...) },
			"in zone a 5 of 10 nodes are unhealthy; from 5 on (50 %) it is not they who have failed",
		},
		{
			func(in *policy.Input) { stormed(in, time.Minute, numbered("w", 0, 12)...) },
			"the cluster was in a storm, or may have been, until 1m0s ago; that has to be over for 5m0s",
		},
		{
			func(in *policy.Input) { about(in, "c0"); kill(in, "c1", "c2"); unzone(in) },
			"of 5 nodes of the control plane 2 would be left healthy without c0, and 3 have to",
		},
		{
			func(in *policy.Input) { started(in, "w0", minutes(1, 3)...) },
			"node w0 has been fenced 3 times in 1h0m0s, and 3 is the limit: an administrator has to look, and to " +
				"restart the fence",
		},
		{
			func(in *policy.Input) { started(in, "w1", minutes(1, 10)...) },
			"10 fences began in 1h0m0s, and 10 is the limit",
		},
		{
			func(in *policy.Input) { node(in, "w1").Fence = policy.FenceActive },
			"1 fence is under way, and 1 is the limit",
		},
	} {
		in := sample()
		c.change(&in)
		assert.Equal(t, c.message, policy.Decide(in).Message)
	}
}
