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
		Old: "			c.probe(ctx, floor, lowered, shown)\n", New: "			_ = c.probe\n",
		Caught: "TestWaitForAQuietResourceTakesASecond",
	},
	{
		Name: "a watch without a bookmark is tried for ever", File: "fresh.go",
		Old: "				return \"\", errNoBookmark\n", New: "				return \"\", errNoVersion\n",
		Caught: "TestAListIsTheProofWithoutAWatchCache",
	},
	{
		Name: "a watch that is too old is tried for ever", File: "fresh.go",
		Old: "if apierrors.IsResourceExpired(err) || ", New: "if err == nil && apierrors.IsResourceExpired(err) || ",
		Caught: "TestAWatchThatIsTooOldIsNoProof",
	},
	{
		Name: "an old state of an object is taken for that of the list", File: "contents.go",
		Old:    "err != nil || !reached {\n			return",
		New:    "err != nil || !reached && !listed {\n			return",
		Caught: "TestWithoutAWatchCacheEveryChangeIsWaitedFor",
	},
	{
		Name: "an object that was deleted may be shown", File: "contents.go",
		Old: "			least = l.version\n", New: "			least = version\n",
		Caught: "TestWithoutAWatchCacheEveryChangeIsWaitedFor",
	},
	{
		Name: "an object that was created may be missing", File: "contents.go",
		Old: "	return missing == 0\n", New: "	return missing >= 0\n",
		Caught: "TestWithoutAWatchCacheEveryChangeIsWaitedFor",
	},
	{
		Name: "a page need not be of its list", File: "contents.go",
		Old: " || version != all.version {", New: " {", Caught: "TestAnOddPageIsNoProof",
	},
	{
		Name: "a list may be older than the floor", File: "contents.go",
		Old: "err != nil || !reached || version", New: "err != nil || reached && !reached || version",
		Caught: "TestAnOddPageIsNoProof",
	},
	{
		Name: "a list of Wait is taken for the informer's", File: "fresh.go",
		Old: "		return r.source\n", New: "		_ = r\n",
		Caught: "TestAWaitThatBeginsDuringARelistDoesNotHinderIt",
	},
	{
		Name: "a watch that passes on events is not read to its end", File: "fresh.go",
		Old: "	for range w.ResultChan() {", New: "	for range make([]struct{}, 0) {",
		Caught: "TestAWatchThatPassesOnEventsLeavesNoGoroutine",
	},
	{
		Name: "objects without a version are waited for", File: "fresh.go",
		Old: "(reached || at == \"\") && c.stripped():", New: "(reached && at == \"\") && c.stripped():",
		Caught: "TestATransformThatRemovesVersionsIsAnError",
	},
	{
		Name: "a stopped informer is waited for", File: "fresh.go",
		Old:    "		case c.Informer.IsStopped():\n			return fmt",
		New:    "		case err == errNoVersion:\n			return fmt",
		Caught: "TestAStoppedInformerIsNotWaitedFor",
	},
	{
		Name: "a stopped informer is waited for to list", File: "relister.go",
		Old: "		case c.Informer.IsStopped():", New: "		case r == nil:",
		Caught: "TestAStoppedInformerIsNotWaitedFor",
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
	{
		Name: "a standby lists at once", File: "hold.go",
		Old: "free = !h.listed || ", New: "free = true || ", Caught: "TestStandbysListLater",
	},
	{
		Name: "a process that starts waits before it lists", File: "hold.go",
		Old: "free = !h.listed || ", New: "free = ", Caught: "TestAProcessListsAtOnceWhenItStarts",
	},
	{
		Name: "a list in a term waits", File: "hold.go",
		Old: "len(h.terms) > 0 || ", New: "", Caught: "TestACacheOfATermListsAtOnce",
	},
	{
		Name: "a term that begins does not end the wait", File: "hold.go",
		Old: "	case <-timer.C:\n	case <-begun:\n", New: "	case <-timer.C:\n",
		Caught: "TestATermThatBeginsMeanwhileListsAtOnce",
	},
	{
		Name: "a term that is over needs the cache", File: "hold.go",
		Old: "{ return closed(over) })", New: "{ return false && closed(over) })",
		Caught: "TestACacheOfATermListsAtOnce",
	},
	{
		Name: "a term is over with the context of its wait", File: "hold.go",
		Old: "	over, _ := handover.TermOf(ctx)\n", New: "	over := ctx.Done()\n",
		Caught: "TestACacheOfATermListsAtOnce",
	},
	{
		Name: "a slow API server gets no time", File: "hold.go",
		Old: "time.Since(began) > maxBusy || ", New: "time.Since(began) > maxBusy || true || ",
		Caught: "TestAStandbyWaitsForASlowServer",
	},
	{
		Name: "a slow API server keeps a list waiting for ever", File: "hold.go",
		Old: "time.Since(began) > maxBusy || ", New: "began.IsZero() || ",
		Caught: "TestAStandbyWaitsForASlowServer",
	},
	{
		Name: "a term waits for a slow API server", File: "hold.go",
		Old: "		case <-begun:\n			cancel()\n", New: "		case <-begun:\n",
		Caught: "TestATermThatBeginsWhileAServerIsSlowListsAtOnce",
	},
	{
		Name: "a list that was throttled passes", File: "hold.go",
		Old: "!apierrors.IsTooManyRequests(err)", New: "err != nil", Caught: "TestAListThatFailsWaitsAgain",
	},
	{
		Name: "another form of a list waits again", File: "hold.go",
		Old: "h.spared = errors.As", New: "h.spared = false && errors.As",
		Caught: "TestAListInAnotherFormDoesNotWaitAgain",
	},
	{
		Name: "client-go pauses after a refused connection", File: "hold.go",
		Old: "if !utilnet.IsConnectionRefused(err) ||", New: "if true || !utilnet.IsConnectionRefused(err) ||",
		Caught: "TestATermAfterALongOutageBeginsSoon",
	},
	{
		Name: "a leader lists twice", File: "fresh.go",
		Old: "c.lists(at) && time.Since(began) < requestTimeout", New: "c.lists(at) && time.Since(began) < 0",
		Caught: "TestALeaderListsOnceAfterARestart",
	},
	{
		Name: "an informer with a watch is waited for to list", File: "relister.go",
		Old: "if w.lists != at {", New: "if w.lists == at {", Caught: "TestAListIsTheProofWithoutAWatchCache",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	mutation.Catch(t, mutations)
}
