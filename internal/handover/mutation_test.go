package handover_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

var mutations = []mutation.Mutation{
	{
		Name: "the version is taken before the last write's answer", File: "log.go",
		Old: "case r.open > 0 || r.lost", New: "case r.lost", Caught: "TestWhatALogKnows",
	},
	{
		Name: "a write without an answer was not carried out", File: "log.go",
		Old: "func(r *resource) { r.lost = true }", New: "func(*resource) {}",
		Caught: "TestWhatALogKnows",
	},
	{
		Name: "a creation that was sent before a deletion is above it", File: "log.go",
		Old: "&& r.unknown < w.begun {", New: "{", Caught: "TestWhatALogKnows",
	},
	{
		Name: "an update is above what was deleted before it", File: "answer.go",
		Old: "case created && w.whole:", New: "case true:", Caught: "TestACreationIsNewerThanADeletion",
	},
	{
		Name: "a subresource has a version of its own", File: "answer.go",
		Old: "case created && w.whole:", New: "case created:", Caught: "TestACreationIsNewerThanADeletion",
	},
	{
		Name: "the last answer has the highest version", File: "log.go",
		Old: "case order >= 0:", New: "case order > -2:", Caught: "TestWhatALogKnows",
	},
	{
		Name: "what a term did not write, no term wrote", File: "log.go",
		Old: "	maps.Copy(versions, l.before)\n", New: "	maps.Copy(versions, Versions{})\n",
		Caught: "TestWhatALogKnows",
	},
	{
		Name: "a removed object has the version of its last update", File: "answer.go",
		Old: "o.Kind == \"Table\", o.removed()", New: "o.Kind == \"Table\"", Caught: "TestVersionOfAnAnswer",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	mutation.Catch(t, mutations)
}
