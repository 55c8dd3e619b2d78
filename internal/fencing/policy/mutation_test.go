//go:build !race

package policy_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// mutations are what may happen to somebody who does not know why a line is there. Each has to be
// caught by the test that is about it. For whole gates see TestForgottenGates.
var mutations = []mutation.Mutation{
	{
		Name: "one node is a storm", File: "storm.go", Old: "t.unhealthy >= 2", New: "t.unhealthy >= 1",
		Caught: "TestGates/Storm",
	},
	{
		Name: "the share itself is no storm", File: "storm.go", Old: "t.unhealthy*100 >= ", New: "t.unhealthy*100 > ",
		Caught: "TestStormTable",
	},
	{
		Name: "shares are rounded", File: "storm.go", Old: "t.unhealthy*100 >= int64(percent)*t.members",
		New: "t.unhealthy*100/t.members > int64(percent)", Caught: "TestStormTable",
	},
	{
		Name: "one zone is one too many", File: "storm.go", Old: "len(c.zones) > 1", New: "len(c.zones) > 0",
		Caught: "TestAllIsInPlainWords",
	},
	{
		Name: "joining nodes are members", File: "facts.go", Old: " && n.EverReady != False", New: "",
		Caught: "TestGates/Storm",
	},
	{
		Name: "soon unhealthy nodes do not count", File: "facts.go", Old: "n.FailingFor != 0 || n.NotReadyFor != 0 || ",
		New: "", Caught: "TestGates/Storm",
	},
	{
		Name: "silent nodes do not count", File: "facts.go", Old: "n.silent(silence) || ", New: "",
		Caught: "TestGates/Storm",
	},
	{
		Name: "nodes that are being fenced do not count", File: "facts.go",
		Old: " || n.Fence != FenceNone && n.Fence != FenceGivenUp", New: "", Caught: "TestGates/Storm",
	},
	{
		Name: "a Lease that was never seen is not silent", File: "facts.go", Old: "n.LeaseSilentFor < 0 || ", New: "",
		Caught: "TestGates/OwnPartition",
	},
	{
		Name: "fences in states not known have no slot", File: "facts.go",
		Old: "return f != FenceNone && f != FenceQueued && f != FenceBooting && f != FenceGivenUp",
		New: "return f == FenceActive", Caught: "TestGates/Concurrency",
	},
	{
		Name: "a new leader knows of no storm", File: "state.go", Old: "c.all.unhealthy >= 2", New: "false",
		Caught: "TestNewLeaderMayHaveMissedTheEndOfAStorm",
	},
	{
		Name: "a pause is not noticed", File: "state.go",
		Old: "s.began.IsZero() || v.Now.Sub(s.last) > limits.LeaseSilence", New: "s.began.IsZero()",
		Caught: "TestProcessThatWasStoppedObservesAgain",
	},
	{
		Name: "the beginning is a storm", File: "state.go",
		Old: "limits.Observation {\n			return s", New: "limits.Observation {",
		Caught: "TestBeginningIsNoStorm",
	},
	{
		Name: "there is no observation", File: "state.go", Old: "	if s.settled {\n		return 0",
		New: "	if s.settled || !s.settled {\n		return 0", Caught: "TestGates/OwnPartition",
	},
	{
		Name: "a storm ends before it has been seen to", File: "state.go", Old: "s.clear[scope] = v.Now\n",
		New: "s.clear[scope] = v.Now.Add(-30 * time.Second)\n", Caught: "TestCoolDownFollowsTheStorm",
	},
	{
		Name: "the storm of a moment is forgotten", File: "state.go",
		Old: "	for scope := range storms {\n		s.storm(scope)\n	}\n", New: "",
		Caught: "TestCoolDownFollowsTheStorm",
	},
	{
		Name: "states share what they remember", File: "state.go", Old: "s.clear = maps.Clone(s.clear)",
		New: "_ = maps.Clone(s.clear)", Caught: "TestStatesAreValues",
	},
	{
		Name: "every view is full of new starts", File: "state.go", Old: "r.Node == s.Node && r.At.Equal(s.At)",
		New: "false && r.Node == s.Node", Caught: "TestGates/Repeats",
	},
	{
		Name: "starts go with their records", File: "state.go", Old: "all := slices.Clone(known)",
		New: "all := slices.Clone(known)[:0]", Caught: "TestGates/Repeats",
	},
	{
		Name: "clocks of others are believed", File: "state.go", Old: "r.seen.Before(at)", New: "false",
		Caught: "TestClockFarAheadDoesNotBlockForYears",
	},
	{
		Name: "the target vouches for the controller", File: "gates.go", Old: "c.is(n) || n.Gone", New: "n.Gone",
		Caught: "TestGates/OwnPartition",
	},
	{
		Name: "no write is a recent write", File: "gates.go",
		Old: "c.Self.LastAPIWrite.IsZero() || age < -c.Limits.APISilence", New: "false",
		Caught: "TestGates/OwnPartition",
	},
	{
		Name: "nodes that fail are commissioned", File: "gates.go",
		Old: "case c.node.Ready != True, c.node.FailingFor != 0, c.node.NotReadyFor != 0:",
		New: "case c.node.Ready != True:", Caught: "TestCommission",
	},
	{
		Name: "unproved devices are used", File: "gates.go", Old: "len(t.Unproved) > 0 && t.Act != Commission",
		New: "false", Caught: "TestUnprovedDevicesHoldAFence",
	},
	{
		Name: "who may begin has not begun", File: "starts.go", Old: "n.Starting && ", New: "false && ",
		Caught: "TestGates/Rate",
	},
	{Name: "half is a majority", File: "gates.go", Old: "all/2 + 1", New: "all / 2", Caught: "TestControlPlaneTable"},
	{
		Name: "the limit itself is too short", File: "gates.go", Old: "failing < limit", New: "failing <= limit",
		Caught: "TestGates/Duration",
	},
	{
		Name: "a node that was never Ready is fenced", File: "gates.go",
		Old: "c.node.EverReady != True && !c.Target.Switched", New: "false", Caught: "TestGates/Duration",
	},
	{
		Name: "the configuration matters after the beginning", File: "gates.go",
		Old: "	case t.Switched:\n		// Its", New: "	case false:\n		// Its",
		Caught: "TestGates/Readiness",
	},
	{
		Name: "what the fence took from the node holds it", File: "gates.go", Old: " && !c.Target.Switched:", New: ":",
		Caught: "TestGates/Storage",
	},
	{
		Name: "another Node of this name has this one's slot", File: "starts.go", Old: "n != c.node", New: "!c.is(n)",
		Caught: "TestGates/Concurrency",
	},
	{
		Name: "old problems are enough to power off", File: "decide.go",
		Old: "min(c.node.FailingFor, c.node.NotReadyFor)",
		New: "max(c.node.FailingFor, c.node.NotReadyFor)", Caught: "TestGates/Duration",
	},
	{
		Name: "names are identities", File: "decide.go", Old: "n.UID == in.Target.UID && n.UID", New: "n.UID",
		Caught: "TestAnotherNodeIsNotTheOneThatFailed",
	},
	{
		Name: "invalid limits are limits", File: "limits.go", Old: "l.Validate() != nil", New: "false",
		Caught: "TestInvalidLimitsForgetNothing",
	},
	{
		Name: "budgets are rounded down", File: "budget.go", Old: "(time.Minute-1)/rate + 1", New: "time.Minute/rate",
		Caught: "TestBudgetIsNeverRoundedInFavourOfHaste",
	},
	{
		Name: "an unknown past is a good one", File: "budget.go", Old: "b.paid.IsZero()", New: "false",
		Caught: "TestBudget",
	},
	{
		Name: "what is not used is saved for ever", File: "budget.go",
		Old: "min(now.Sub(b.paid), savings+cost)", New: "now.Sub(b.paid)", Caught: "TestBudget",
	},
	{
		Name: "the control plane is first", File: "order.go", Old: "rank(a.ControlPlane), rank(b.ControlPlane)",
		New: "rank(b.ControlPlane), rank(a.ControlPlane)", Caught: "TestOrder",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	mutation.Catch(t, mutations)
}
