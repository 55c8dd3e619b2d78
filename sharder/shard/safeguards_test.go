//go:build !race

package shard

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// safeguards are mutations that a test of this package must catch by name. See package sharder.
var safeguards = []mutation.Mutation{
	{
		Name: "a patch of a shard is carried out on another object of that name", File: "drain.go",
		Old: "n.MergePatch(root.GetUID(), root", New: "n.MergePatch(\"\", root",
		Caught: "TestEveryPatchOfAShardNamesTheObjectAndItsVersion",
	},
	{
		Name: "a decision is carried out on another version", File: "../internal/protocol/patch.go",
		Old: "		metadata[\"resourceVersion\"] = version", New: "		_ = version",
		Caught: "TestEveryPatchOfAShardNamesTheObjectAndItsVersion",
	},
	{
		Name: "a shard's first list is from a cache of the API server", File: "informer.go",
		Old: "		if o.ResourceVersion == \"0\" {", New: "		if o.ResourceVersion == \"none\" {",
		Caught: "TestFirstListsAreConsistent",
	},
	{
		Name: "a transform may return nil", File: "transform.go",
		Old: "		if err == nil && obj == nil {", New: "		if err != nil && obj == nil {",
		Caught: "TestATransformHidesNoObject",
	},
	{
		Name: "every cache of children has to show those of all namespaces", File: "informer.go",
		Old:    "return i.namespace == \"\" || namespace == \"\" || i.namespace == namespace",
		New:    "_ = namespace\n	return true",
		Caught: "TestACacheOfChildrenThatFailsConcernsItsNamespaceOnly",
	},
	{
		Name: "an old copy counts if another cache has a newer one", File: "caches.go",
		Old: "		seen.version = q.own.GetResourceVersion()\n", New: "",
		Caught: "TestACopyFromBeforeAHandoverAllowsNoWork",
	},
	{
		Name: "a copy from before the assignment counts if another cache has a newer one", File: "caches.go",
		Old: "seen.stale || s.self(term, q.at.Resource).AssignmentOf(q.own) != protocol.AssignedHere",
		New: "seen.stale", Caught: "TestACopyFromBeforeAHandoverAllowsNoWork",
	},
	{
		Name: "a copy from before the acknowledgement counts", File: "admission.go",
		Old: "case !protocol.Reaches(a.caches.version, a.floor):", New: "case a.floor == \"never\":",
		Caught: "TestNoTwoShardsWorkOnOneObject",
	},
	{
		Name: "a shard lets go before the last write has an answer", File: "../internal/protocol/handover.go",
		Old: "case h.AtWork || h.Pending:", New: "case h.AtWork:",
		Caught: "TestAnAcknowledgementWaitsForRequestsOfUnknownOutcome",
	},
	{
		Name: "a shard lets go before it has been quiet", File: "drain.go",
		Old: "s.tracker.pending(at) || time.Since(known.quietSince) < s.config.Quiet", New: "s.tracker.pending(at)",
		Caught: "TestAShardLetsGoWhenItHasBeenQuiet",
	},
	{
		Name: "a shard is quiet from the last work before the drain on", File: "work_tracker.go",
		Old: "e.since, e.quietSince = time.Now(), time.Now()", New: "e.since = time.Now()",
		Caught: "TestAShardLetsGoWhenItHasBeenQuiet",
	},
	{
		Name: "a shard is quiet while there is work", File: "work_tracker.go",
		Old: "	e.quietSince = time.Now()\n	r.dropIfEmpty(e)", New: "	r.dropIfEmpty(e)",
		Caught: "TestAShardLetsGoWhenItHasBeenQuiet",
	},
	{
		Name: "the versions of children are not waited for", File: "caches.go",
		Old: "!known || i.began() != term || !i.complete(floor)", New: "!known || i.began() != term || floor < \"\"",
		Caught: "TestWorkWaitsForTheCachesOfChildren",
	},
	{
		Name: "deleted children may be shown", File: "caches.go",
		Old: "if i.mayShowDeleted(root.UID, r.Childless[name]) {", New: "if false {",
		Caught: "TestWorkWaitsUntilNoDeletedChildIsShown",
	},
	{
		Name: "a cache of children has to reach the version of another resource", File: "caches.go",
		Old: "r.ChildFloor[name]; !known", New: "r.ChildFloor[children[0].GroupResource().String()]; !known",
		Caught: "TestEachCacheOfChildrenHasItsOwnFloor",
	},
	{
		Name: "a cache counts in a term before it has caught up", File: "informer_term.go",
		Old: "err := fresh.WaitLatest(ctx, own)", New: "err := ctx.Err()\n		_, _ = fresh.WaitLatest, own",
		Caught: "TestAWarmCacheThatIsBehindAllowsNoWork",
	},
	{
		Name: "a watch that hangs keeps a cache from its term", File: "informer_term.go",
		Old: "RelistAfter: relistAfter,", New: "RelistAfter: time.Hour,", Caught: "TestAWarmCacheWhoseWatchHangsLists",
	},
	{
		Name: "a list without an answer is waited for", File: "informer.go",
		Old: "context.WithTimeout(ctx, listTimeout)", New: "context.WithTimeout(ctx, 100*listTimeout)",
		Caught: "TestAListOfAnInformerThatIsLostIsSentAgain",
	},
	{
		Name: "a cache of the first term lists later", File: "informer.go",
		Old: "return handover.WithTerm(ctx, over)", New: "_ = over\n	return ctx",
		Caught: "TestACacheOfTheFirstTermListsAtOnce",
	},
	{
		Name: "a cache of an earlier term counts", File: "caches.go",
		Old: "if i.covers(namespace) && i.began() == term {", New: "if i.covers(namespace) && i.began() != nil {",
		Caught: "TestAWarmCacheIsListedOnce",
	},
	{
		Name: "what is drained before a cache counts is forgotten", File: "informer_term.go",
		Old: "	for _, item := range i.GetStore().List() {\n		i.consider(item)\n	}\n", New: "",
		Caught: "TestAWarmCacheLetsGoOfWhatIsDrainedMeanwhile",
	},
	{
		Name: "a transform may drop the owner of a child without a controller", File: "transform.go",
		Old: "owners := slices.Clone(before.GetOwnerReferences())", New: "var owners []metav1.OwnerReference",
		Caught: "TestATransformKeepsTheOnlyOwner",
	},
	{
		Name: "a child of several owners is stamped", File: "children.go",
		Old: "	case 1:\n	default:", New: "	case 1, 2:\n	default:",
		Caught: "TestAChildOfItsOnlyOwnerIsStamped",
	},
	{
		Name: "a resource without an informer is not said", File: "check.go",
		Old: "late := i.term != nil && now", New: "late := i.term == nil && now",
		Caught: "TestAResourceWithoutAnInformerIsSaid",
	},
	{
		Name: "writes outside of work are not said", File: "../../internal/leasehold/guard.go",
		Old: "f.scope == nil && at.name != \"\" {", New: "f.scope == nil && at.name == \"-\" {",
		Caught: "TestAWriteOutsideOfWorkIsWarnedOf",
	},
	{
		Name: "writes in work are said", File: "../../internal/leasehold/guard.go",
		Old: "outside != nil && f.scope == nil &&", New: "outside != nil &&",
		Caught: "TestAWriteOutsideOfWorkIsWarnedOf",
	},
	{
		Name: "a check passes although no reconciler asks", File: "check.go",
		Old: "		case s.roots[r.GVR].asked.missing():", New: "		case false:",
		Caught: "TestAReconcilerThatDoesNotAskFailsTheCheck",
	},
	{
		Name: "a drain label that somebody sets gives an object away", File: "../internal/protocol/record.go",
		Old:    "	if !drained || value == \"\" || value != root.GetLabels()[n.Seal] {",
		New:    "	if _ = value; !drained {",
		Caught: "TestAShardGivesAnObjectToWhoIsNext",
	},
	{
		Name: "a root is given away before its children", File: "../internal/protocol/record.go",
		Old: "if heir == nil || family || len(r.Left) > 0 {", New: "if _ = family; heir == nil || len(r.Left) > 0 {",
		Caught: "TestAShardGivesAnObjectToWhoIsNext",
	},
	{
		Name: "an object is given away before all have been asked", File: "../internal/protocol/record.go",
		Old: "if heir == nil || family || len(r.Left) > 0 {", New: "if heir == nil || family {",
		Caught: "TestAShardGivesAnObjectToWhoIsNext",
	},
}

// TestMutationsOfSafeguardsAreCaught runs builds; its name keeps it with the simulations.
func TestMutationsOfSafeguardsAreCaught(t *testing.T) {
	mutation.Catch(t, safeguards)
}
