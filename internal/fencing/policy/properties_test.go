package policy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

var (
	statuses = rapid.SampledFrom([]policy.Status{
		policy.True, policy.True, policy.True, policy.False, policy.Unknown,
		policy.Missing,
	})
	durations = rapid.SampledFrom([]time.Duration{
		policy.NotSeen, 0, 0, 0, time.Second, 29 * time.Second,
		30 * time.Second, 40 * time.Second, 41 * time.Second, time.Hour,
	})
	fences = rapid.SampledFrom([]policy.Fence{
		policy.FenceNone, policy.FenceNone, policy.FenceNone, policy.FenceQueued, policy.FenceActive,
		policy.FenceBooting, policy.FenceGivenUp, 17,
	})
	// Most facts are good, or everything would be held by the first gate that comes along. Extremes
	// are drawn more often than others.
	rarely = rapid.Custom(func(t *rapid.T) bool { return rapid.IntRange(0, 39).Draw(t, "of 40") == 13 })
)

func drawNode(t *rapid.T, name string) policy.NodeFacts {
	n := healthy(name)
	n.Zone = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone")
	n.ControlPlane = rarely.Draw(t, "control plane")
	n.Selected = !rarely.Draw(t, "not selected")
	if rarely.Draw(t, "joining") {
		n.EverReady = statuses.Draw(t, "ever Ready")
	}
	n.Excluded, n.Deleting, n.AutoscalerTaint, n.Gone = rarely.Draw(t, "excluded"), rarely.Draw(t,
		"deleting"), rarely.Draw(t, "taint"), rarely.Draw(t, "gone")
	n.StorageLost = rarely.Draw(t, "storage lost")
	if rarely.Draw(t, "odd") {
		n.Ready, n.FenceReady = statuses.Draw(t, "Ready"), statuses.Draw(t, "FenceReady")
		n.FailingFor, n.NotReadyFor, n.LeaseSilentFor = durations.Draw(t, "failing"), durations.Draw(t,
			"not Ready"), durations.Draw(t, "silent")
		n.Fence = fences.Draw(t, "fence")
	}
	return n
}

func drawInput(t *rapid.T) policy.Input {
	nodes := make([]policy.NodeFacts, rapid.IntRange(1, 12).Draw(t, "nodes"))
	for i := range nodes {
		nodes[i] = drawNode(t, fmt.Sprint("w", i))
	}
	in := lost(nodes, min(len(nodes), 1))
	if len(nodes) > 1 && rapid.Bool().Draw(t, "another one dead") {
		fail(&nodes[1], durations.Draw(t, "dead for"))
	}
	if rarely.Draw(t, "odd target") {
		nodes[0] = drawNode(t, "w0")
	}
	in.Limits = policy.Limits{
		MaxConcurrent: rapid.IntRange(0, 3).Draw(t, "concurrent"),
		StormPercent:  rapid.SampledFrom([]int{0, 1, 10, 34, 50, 100}).Draw(t, "percent"),
	}
	if rarely.Draw(t, "invalid") {
		in.Limits.MaxStarts = -1
	}
	in.Limits.RequireStorage, in.Storage = rarely.Draw(t, "storage"), statuses.Draw(t, "reached")
	in.Target.Act = rapid.SampledFrom([]policy.Act{policy.PowerOff, policy.SwitchOff, policy.Isolate}).Draw(t, "act")
	in.Target.Trigger = rapid.SampledFrom([]string{"", "Ready", "KernelDeadlock"}).Draw(t, "trigger")
	in.Target.Switched, in.Target.Repeating = rarely.Draw(t, "switched"), rarely.Draw(t, "repeating")
	if rarely.Draw(t, "paused") {
		in.Paused = "for a test"
	}
	if rarely.Draw(t, "cut off") {
		in.Self.LastAPIWrite = now.Add(-durations.Draw(t, "written"))
	}
	if rarely.Draw(t, "own host") {
		in.Self.Node = "w0"
	}
	for range rapid.IntRange(0, 3).Draw(t, "starts") * rapid.IntRange(0, 4).Draw(t, "times") {
		started(&in, fmt.Sprint("w", rapid.IntRange(0, 5).Draw(t, "started")),
			time.Duration(rapid.IntRange(0, 80).Draw(t, "ago"))*time.Minute)
	}
	if rarely.Draw(t, "new") {
		in.State = policy.State{}
	}
	return in
}

// TestAllowedMeans has what must be true whenever anything is allowed, in other words than the
// gates have it.
func TestAllowedMeans(t *testing.T) {
	allowed := 0
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		d := policy.Decide(in)
		if d.Verdict != policy.Allow {
			return
		}
		allowed++
		must := func(fact bool, what string) {
			if !fact {
				t.Fatalf("allowed, and %s does not hold", what)
			}
		}
		l := in.Limits.WithDefaults()
		must(in.Limits.Validate() == nil, "valid limits")
		must(in.Paused == "", "not paused")
		must(in.Self.Node != in.Target.Name, "another host")
		must(now.Sub(in.Self.LastAPIWrite) <= 15*time.Second, "a recent write")
		must(!l.RequireStorage || in.Storage == policy.True, "storage reached")

		var members, unhealthy, zoneMembers, zoneUnhealthy, active, alive int
		target := in.Nodes[0]
		must(target.Selected && !target.Excluded && !target.Deleting && !target.AutoscalerTaint && !target.Gone &&
			(target.EverReady == policy.True || in.Target.Switched), "a member")
		must(target.FailingFor >= 30*time.Second, "failing for long enough")
		must(target.Ready != policy.True || in.Target.Act != policy.PowerOff, "powered off only when not Ready")
		zones := map[string]bool{}
		for i, n := range in.Nodes {
			renewed := n.LeaseSilentFor >= 0 && n.LeaseSilentFor <= 40*time.Second
			if i > 0 && renewed && !n.Gone {
				alive++
			}
			if i > 0 && (n.Fence == policy.FenceActive || n.Fence == 17) {
				active++
			}
			if n.Name == in.Self.Node {
				must(renewed, "its own Lease is renewed")
			}
			if !n.Selected || n.Excluded || n.Deleting || n.AutoscalerTaint || n.Gone || n.EverReady == policy.False {
				continue
			}
			members++
			zones[n.Zone] = true
			well := n.Ready == policy.True && n.FailingFor == 0 && n.NotReadyFor == 0 && renewed &&
				(n.Fence == policy.FenceNone || n.Fence == policy.FenceGivenUp)
			if !well {
				unhealthy++
			}
			if n.Zone == target.Zone {
				zoneMembers++
				if !well {
					zoneUnhealthy++
				}
			}
		}
		must(alive > 0, "another Lease is renewed")
		if in.Target.Switched {
			return
		}
		must(target.FenceReady == policy.True, "checked devices")
		must(!in.Target.Repeating, "not held for repeats")
		must(unhealthy < 2 || float64(unhealthy)/float64(members) < float64(l.StormPercent)/100, "no storm")
		must(len(zones) == 1 || zoneUnhealthy < 2 ||
			float64(zoneUnhealthy)/float64(zoneMembers) < float64(l.StormPercent)/100, "no storm of the zone")
		if in.Target.Act == policy.Isolate {
			return
		}
		must(active < l.MaxConcurrent, "a slot")
		must(len(slices.DeleteFunc(slices.Clone(in.Starts),
			func(s policy.Start) bool { return now.Sub(s.At) >= time.Hour })) < 10 || duplicates(in.Starts), "the rate")
	})
	if allowed == 0 {
		t.Fatal("nothing was ever allowed, so nothing was tested")
	}
	t.Logf("%d allowed", allowed)
}

func duplicates(starts []policy.Start) bool {
	seen := map[policy.Start]bool{}
	for _, s := range starts {
		seen[s] = true
	}
	return len(seen) < len(starts)
}

// TestWorseIsNeverAllowed makes an input that is not allowed worse, by what is only ever a reason
// against it.
func TestWorseIsNeverAllowed(t *testing.T) {
	worse := map[string]func(*rapid.T, *policy.Input){
		"an unhealthy member more": func(t *rapid.T, in *policy.Input) {
			n := healthy("more")
			fail(&n, durations.Draw(t, "dead for"))
			n.LeaseSilentFor = policy.NotSeen
			n.Zone, n.ControlPlane = rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t,
				"zone"), rapid.Bool().Draw(t, "control plane")
			in.Nodes = append(in.Nodes, n)
		},
		"a Lease falls silent": func(t *rapid.T, in *policy.Input) {
			drawn(t, in).LeaseSilentFor = rapid.SampledFrom([]time.Duration{policy.NotSeen, time.Minute}).Draw(t,
				"silent")
		},
		"another node fails": func(t *rapid.T, in *policy.Input) {
			if n := drawn(t, in); n.Name != "w0" {
				n.Ready = rapid.SampledFrom([]policy.Status{policy.False, policy.Unknown, policy.Missing}).Draw(t,
					"Ready")
			}
		},
		"another fence begins": func(t *rapid.T, in *policy.Input) {
			if n := drawn(t, in); n.Name != "w0" && n.Fence == policy.FenceNone {
				n.Fence = rapid.SampledFrom([]policy.Fence{
					policy.FenceQueued, policy.FenceActive,
					policy.FenceBooting,
				}).Draw(t, "fence")
			}
		},
		"another fence may begin": func(t *rapid.T, in *policy.Input) {
			if n := drawn(t, in); n.Name != "w0" {
				n.Starting = true
			}
		},
		"what is known of the target is not": func(t *rapid.T, in *policy.Input) {
			n := &in.Nodes[0]
			switch rapid.IntRange(0, 4).Draw(t, "fact") {
			case 0:
				n.FailingFor, n.NotReadyFor = policy.NotSeen, policy.NotSeen
			case 1:
				n.FenceReady = policy.Unknown
			case 2:
				n.EverReady = policy.Unknown
			case 3:
				n.UID = ""
			case 4:
				n.Ready = policy.Missing
			}
		},
		"what is known of the controller is not": func(t *rapid.T, in *policy.Input) {
			switch rapid.IntRange(0, 3).Draw(t, "fact") {
			case 0:
				in.Self.Node, in.Self.OutsideCluster = "", false
			case 1:
				in.Self.LastAPIWrite = time.Time{}
			case 2:
				in.Storage = policy.Unknown
			case 3:
				in.State = policy.State{}
			}
		},
		"another start": func(t *rapid.T, in *policy.Input) {
			started(in, rapid.SampledFrom([]string{"w0", "w1"}).Draw(t, "started"),
				time.Minute+time.Duration(rapid.IntRange(1, 1000).Draw(t, "ms"))*time.Millisecond)
		},
		"paused": func(_ *rapid.T, in *policy.Input) { in.Paused = "for a test" },
	}
	for name, change := range worse {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := drawInput(t)
				before := policy.Decide(in)
				in.Nodes = slices.Clone(in.Nodes)
				change(t, &in)
				if after := policy.Decide(in); before.Verdict != policy.Allow && after.Verdict == policy.Allow {
					t.Fatalf("allowed now, and before it was %v: %s", before.Verdict, before.Message)
				}
			})
		})
	}
}

func drawn(t *rapid.T, in *policy.Input) *policy.NodeFacts {
	return &in.Nodes[rapid.IntRange(0, len(in.Nodes)-1).Draw(t, "node")]
}

// TestDecisionsAreWellFormed is what controllers and dashboards rely on.
func TestDecisionsAreWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		d := policy.Decide(in)
		if len(d.Gates) != 17 {
			t.Fatalf("%d gates were asked", len(d.Gates))
		}
		first := policy.GateResult{Verdict: policy.Allow, Reason: policy.ReasonAllowed, Message: d.Message}
		for i := len(d.Gates) - 1; i >= 0; i-- {
			r := d.Gates[i]
			if r.Gate == "" || r.Message == "" || (r.Reason == "") != (r.Verdict == policy.Allow) ||
				r.Verdict == policy.Wait && r.After <= 0 || r.After < 0 {
				t.Fatalf("gate %d says %+v", i, r)
			}
			if r.Verdict != policy.Allow {
				first = r
			}
		}
		if d.Verdict != first.Verdict || d.Reason != first.Reason || d.Message != first.Message ||
			d.After != first.After {
			t.Fatalf("%+v, and the first gate says %+v", d, first)
		}
		in.Nodes = rapid.Permutation(in.Nodes).Draw(t, "order")
		if again := policy.Decide(in); again.Verdict != d.Verdict || again.Reason != d.Reason ||
			again.After != d.After {
			t.Fatalf("%+v, and in another order of nodes %+v", d, again)
		}
	})
}
