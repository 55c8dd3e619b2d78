//go:build !race

package membership

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// safeguards are mutations that a test of this package must catch by name. See package sharder.
var safeguards = []mutation.Mutation{
	{
		Name: "the owner under other weights counts as the only one", File: "plan.go",
		Old: "open.AndNot(&open, &life.full)", New: "open.AndNot(&open, &under)",
		Caught: "TestOwnersUnderOtherWeightsAreKnown",
	},
	{
		Name: "the history forgets other weights of the same shards", File: "../protocol/history.go",
		Old: "ranged = ranged.over(o)", New: "_ = ranged.over(o)",
		Caught: "TestOwnersUnderOtherWeightsAreKnown",
	},
	{
		Name:   "a settled history forgets weights by which a drain may still be carried out",
		File:   "../protocol/history.go",
		Old:    "return !slices.Contains(m, t) && !ended(t.OwnerEpoch)",
		New:    "return !slices.Contains(m.OwnerEpochs(), t.OwnerEpoch) && !ended(t.OwnerEpoch)",
		Caught: "TestOwnersUnderOtherWeightsAreKnown",
	},
	{
		Name: "the owner of a diverted key on the ring is not asked", File: "plan.go",
		Old: "[]protocol.OwnerEpoch{p.home(hash)}", New: "[]protocol.OwnerEpoch{}",
		Caught: "TestOwnersOfADivertedKeyAreKnown",
	},
	{
		Name: "where a key was diverted to is not asked", File: "plan.go",
		Old: "p.displaced[keyed(hash)],", New: "",
		Caught: "TestOwnersOfADivertedKeyAreKnown",
	},
	{
		Name: "the first owner of a diverted key is that of the ring", File: "plan.go",
		Old: "t, ok = p.living.Member(p.diverted[hash]); ok", New: "t, ok = p.living.Member(p.diverted[hash]); false",
		Caught: "TestTheFirstOwnerOfADivertedKeyIsWhereItIsDivertedTo",
	},
	{
		Name: "keys that are admitted while a plan is stored are not looked at again", File: "balance.go",
		Old: "	b.review() // keys may", New: "	// keys may",
		Caught: "TestKeysThatAreAdmittedMeanwhileAreLookedAtAgain",
	},
}

// TestMutationsOfSafeguardsAreCaught runs builds; its name keeps it with the simulations.
func TestMutationsOfSafeguardsAreCaught(t *testing.T) {
	mutation.Catch(t, safeguards)
}
