//go:build !race

package protocol

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// safeguards are mutations that a test of this package must catch by name. See package sharder.
var safeguards = []mutation.Mutation{
	{
		Name: "an edited label hands an object over", File: "decide.go",
		Old: "return Decision{Verb: Restore, Label: r.Shard, Drain: asked}", New: "return s.next()",
		Caught: "TestDecision",
	},
	{
		Name: "a sharder has roots given away before their children", File: "decide.go",
		Old: "	if s.family || len(s.Record.Left) > 0 ||", New: "	if len(s.Record.Left) > 0 ||",
		Caught: "TestWhoIsNext",
	},
	{
		Name: "a shard that is no member is given a successor", File: "decide.go",
		Old: "|| !s.Resident || !s.Target.Current || s.Diverted {", New: "|| !s.Target.Current || s.Diverted {",
		Caught: "TestWhoIsNext",
	},
	{
		Name: "a diverted root has a successor", File: "decide.go",
		Old: "!s.Target.Current || s.Diverted {", New: "!s.Target.Current {",
		Caught: "TestWhoIsNext",
	},
	{
		Name: "the usual record counts without its seal", File: "record.go",
		Old:    " && o.GetLabels()[n.Seal] == SealOf(value)",
		New:    "",
		Caught: "TestAssignmentOfARoot",
	},
}

// TestMutationsOfSafeguardsAreCaught runs builds; its name keeps it with the simulations.
func TestMutationsOfSafeguardsAreCaught(t *testing.T) {
	mutation.Catch(t, safeguards)
}
