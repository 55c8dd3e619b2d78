//go:build !race

package sharder_test

import (
	"os"
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutant"
	"github.com/bellwether-k8s/bellwether/internal/sim"
)

// safeguards are lines that a simulation misses seldom, or late. Each has a test of its own that fails without it, at once.
var safeguards = []mutant.Mutation{
	{
		Name: "a root that has lost its record begins without a floor", File: "mover.go",
		Old: "if !m.root.recorded && !b.any {", New: "if false {",
		Caught: "TestARootThatLosesItsRecordKeepsTheFloorOfItsChildren",
	},
	{
		Name: "a sharder does not ask what shards were given before it", File: "mover.go",
		Old: "e.moves.inDoubt() || e.unsurveyed(current)", New: "e.moves.inDoubt()",
		Caught: "TestARootThatLosesItsRecordKeepsTheFloorOfItsChildren",
	},
	{
		Name: "an old record of an object may be restored", File: "seal.go",
		Old: "fits := recorded && sealed && seal == sealOf(value)", New: "fits := recorded && sealed && seal != \"\"",
		Caught: "TestAnOldRecordThatIsRestoredEndsNobodysWork",
	},
	{
		Name: "an old record of v0.1 may be restored", File: "seal.go",
		Old: "case own && !recorded && !sealed:", New: "case own && !recorded:",
		Caught: "TestARecordCountsIfItIsTheOneThatWasWrittenLast",
	},
	{
		Name: "the records of all resources are in one annotation", File: "labels.go",
		Old: "	n.record = RecordAnnotation(n.ring, resource)", New: "	n.record = n.owner",
		Caught: "TestCopiedAnnotationsAreNoReasonToWriteForEver",
	},
	{
		Name: "any 404 proves that an object is gone", File: "work.go",
		Old: "return kube.Absent(err, e.kin.all[r.resource].GVR.GroupResource(), r.name)", New: "_ = kube.Absent\n	return apierrors.IsNotFound(err)",
		Caught: "TestAPageOfAProxyDoesNotProveThatAnObjectIsGone",
	},
	{
		Name: "the record of another object stays", File: "root.go",
		Old: "	v.foreign = n.foreign(o)\n", New: "",
		Caught: "TestCopiedAnnotationsAreNoReasonToWriteForEver",
	},
}

// TestSimulatedMutationsOfSafeguardsAreCaught has a name that keeps it with the simulations, because it takes builds.
func TestSimulatedMutationsOfSafeguardsAreCaught(t *testing.T) {
	mutant.Catch(t, safeguards, os.Getenv(sim.SoakVariable) != "")
}
