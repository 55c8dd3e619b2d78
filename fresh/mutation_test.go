package fresh_test

import (
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
	{
		Name: "the list of a relist may be old", File: "relister.go",
		Old: "		o.ResourceVersion, o.ResourceVersionMatch = \"\", \"\"\n", New: "",
		Caught: "TestARelistIsOneConsistentList",
	},
	{
		Name: "the watch after a list hides it", File: "relister.go",
		Old: "		case <-current.over:\n", New: "		default:\n", Caught: "TestARelistEndsWhileObjectsChange",
	},
	{
		Name: "a watch is not replaced", File: "relister.go",
		Old: "	for _, w := range open {\n		w.Stop()\n	}\n", New: "	_ = open\n",
		Caught: "TestAWatchThatHangsIsReplacedByAList",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	mutation.Catch(t, mutations)
}
