package fresh_test

import (
	"os"
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

var mutations = []mutation.Mutation{
	{
		Name: "the floor is of any list", File: "fresh.go",
		Old: "metav1.ListOptions{Limit: 1}", New: "metav1.ListOptions{ResourceVersion: \"0\"}",
		Caught: "TestTheFloorIsOfAConsistentList",
	},
	{
		Name: "an answer without a version is a fake's", File: "fresh.go",
		Old: "case version != \"\": // something", New: "default: // something",
		Caught: "TestOddAnswersAreNoProof",
	},
	{
		Name: "the second watch is not read", File: "fresh.go",
		Old: "			at = version\n", New: "", Caught: "TestTheSecondWatchSaysHowFarTheInformerHasToCome",
	},
	{
		Name: "a quiet resource waits for the informer's bookmark", File: "fresh.go",
		Old: "			c.lower(ctx, floor, lowered)\n", New: "			_ = c.lower\n",
		Caught: "TestWaitForAQuietResourceTakesASecond",
	},
	{
		Name: "an informer that has not synced is fresh", File: "fresh.go",
		Old: "				if c.Informer.HasSynced() {\n", New: "				if ctx.Err() == nil {\n",
		Caught: "TestAFakeClientsetHasNoVersions",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	mutation.Catch(t, mutations, os.Getenv("BELLWETHER_SOAK") != "")
}
