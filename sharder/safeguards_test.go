//go:build !race

package sharder_test

import (
	"os"
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
	"github.com/bellwether-k8s/bellwether/internal/sim"
)

// safeguards are lines that a simulation misses seldom, or late. Each has a test of its own that fails without it, at once.
var safeguards = []mutation.Mutation{
	{
		Name: "a root that has lost its record begins without a floor", File: "work.go",
		Old: "] = e.given.floor(holding{d.label, i})", New: "], _ = \"\", i",
		Caught: "TestARootThatLosesItsRecordKeepsTheFloorOfItsChildren",
	},
	{
		Name: "a root that has lost its record, and may have been outside of the ring, begins without a floor", File: "mover.go",
		Old: "if !m.root.recorded && !b.any {", New: "if false {",
		Caught: "TestARootThatLosesItsRecordKeepsTheFloorOfItsChildren",
	},
	{
		Name: "a sharder does not ask what shards were given before it", File: "mover.go",
		Old: "e.moves.inDoubt(m.root.ref) || e.unsurveyed(m.root)", New: "e.moves.inDoubt(m.root.ref)",
		Caught: "TestARootThatLosesItsRecordKeepsTheFloorOfItsChildren",
	},
	{
		Name: "an old record of an object may be restored", File: "seal.go",
		Old: "fits := recorded && sealed && seal == sealOf(value)", New: "fits := recorded && sealed && seal != \"\"",
		Caught: "TestAnOldRecordThatIsRestoredEndsNobodysWork",
	},
	{
		Name: "the usual record counts without its seal", File: "seal.go",
		Old:    " && annotations[n.owner] == value && o.GetLabels()[n.seal] == sealOf(value)",
		New:    " && annotations[n.owner] == value",
		Caught: "TestStandingOfARoot",
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
		Name: "a patch is carried out on another object of that name", File: "patch.go",
		Old: `		metadata["uid"] = uid`, New: "		_ = uid",
		Caught: "TestEveryPatchOfASharderNamesTheObjectAndItsVersion",
	},
	{
		Name: "a patch of a shard is carried out on another object of that name", File: "acknowledge.go",
		Old: `n.mergePatch(root.GetUID(), root`, New: `n.mergePatch("", root`,
		Caught: "TestEveryPatchOfAShardNamesTheObjectAndItsVersion",
	},
	{
		Name: "a decision is carried out on another version", File: "patch.go",
		Old: `		metadata["resourceVersion"] = version`, New: "		_ = version",
		Caught: "TestEveryPatchOfAShardNamesTheObjectAndItsVersion",
	},
	{
		Name: "a shard's first list is from a cache of the API server", File: "informer.go",
		Old: `	if options.ResourceVersion == "0" {`, New: `	if options.ResourceVersion == "none" {`,
		Caught: "TestFirstListsAreConsistent",
	},
	{
		Name: "an edited label hands an object over", File: "decide.go",
		Old: "return decision{verb: restore, label: r.Shard, drain: asked}", New: "return s.next()",
		Caught: "TestDecision",
	},
	{
		Name: "objects are assigned before the history says among whom", File: "govern.go",
		Old: "if err := e.ledger.begin(ctx, m); err != nil {\n		return nil, err", New: "if err := ctx.Err(); err != nil {\n		return nil, err",
		Caught: "TestTheHistoryIsStoredBeforeAnythingIsAssigned",
	},
	{
		Name: "a Lease is deleted that the history names", File: "keeper.go",
		Old: "if !ok || k.named(shard) {", New: "if !ok {",
		Caught: "TestALeaseStaysWhileTheHistoryNamesIt",
	},
	{
		Name: "a new sharder does not wait to know of the drains under way", File: "session.go",
		Old: "	counted.Wait()\n", New: "",
		Caught: "TestANewSharderCountsTheDrainsThatAreUnderWay",
	},
	{
		Name: "a resource that cannot be listed ends a scan", File: "govern.go",
		Old: "			if ctx.Err() != nil {\n				return t, ctx.Err()", New: "			if err != nil {\n				return t, err",
		Caught: "TestAResourceThatCannotBeListedStopsNoOther",
	},
	{
		Name: "a root that was outside of the ring is taken for a new one", File: "work.go",
		Old: "!e.resources[s.resource].Selector.Empty() ||\n", New: "false ||\n",
		Caught: "TestARootThatIsSelectedLaterIsNotTakenForANewOne",
	},
	{
		Name: "a sharder that is new takes roots for new ones", File: "work.go",
		Old: "e.moves.inDoubt(s.ref) || e.unsurveyed(s.root)", New: "false",
		Caught: "TestARootThatLosesItsRecordKeepsTheFloorOfItsChildren",
	},
	{
		Name: "a root whose move has ended halfway is taken for a new one", File: "work.go",
		Old: "e.moves.inDoubt(s.ref) || e.unsurveyed(s.root)", New: "e.unsurveyed(s.root)",
		Caught: "TestARootWhoseMoveHasEndedHalfwayIsNotTakenForANewOne",
	},
	{
		Name: "a scan ends the doubts from after its beginning", File: "moves.go",
		Old: "return at <= ended })", New: "return at > 0 || ended > 0 })",
		Caught: "TestScanEndsTheDoubtsFromBeforeIt",
	},
	{
		Name: "a page has as many large objects as small ones", File: "source.go",
		Old: "	fitting := max(1, min(p.limit, ", New: "	fitting := max(p.limit, min(p.limit, ",
		Caught: "TestAPageOfLargeObjectsIsNotLarge",
	},
	{
		Name: "the Lease of a shard that was asked about is created for ever", File: "registry.go",
		Old: "		delete(g.asked, l.Name)", New: "		_ = g.asked",
		Caught: "TestALeaseThatWasCollectedIsNotCreatedAgain",
	},
	{
		Name: "a ring is settled although a resource is not known", File: "govern.go",
		Old: "errs := []error{e.unknown}", New: "errs := []error{nil}",
		Caught: "TestAResourceThatIsNotServedIsPickedUpLater",
	},
	{
		Name: "a history that is lost is not recalled where a resource cannot be listed", File: "session.go",
		Old: "	return len(errs) > 0, nil\n", New: "	return false, errors.Join(errs...)\n",
		Caught: "TestALostHistoryIsRecalledWhereAResourceCannotBeListed",
	},
	{
		Name: "every cache of children has to show those of all namespaces", File: "informer.go",
		Old: "return i.namespace == \"\" || namespace == \"\" || i.namespace == namespace", New: "_ = namespace\n	return true",
		Caught: "TestACacheOfChildrenThatFailsConcernsItsNamespaceOnly",
	},
	{
		Name: "nothing is asked about former members before somebody has to know", File: "govern.go",
		Old: "	all.Go(func() { e.acquaint(ctx) })\n", New: "",
		Caught: "TestANewObjectDoesNotWaitForTheProofThatAShardIsGone",
	},
	{
		Name: "a scan tries at once what has failed again and again", File: "queue.go",
		Old: "return i.index >= 0 && i.failures > patience }", New: "return false }",
		Caught: "TestAnObjectThatAPolicyDeniesCostsLittle",
	},
	{
		Name: "a policy's refusal is taken for a conflict", File: "patch.go",
		Old: "	if apierrors.IsConflict(err) {", New: "	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) {",
		Caught: "TestAnObjectThatAPolicyDeniesCostsLittle",
	},
	{
		Name: "a shard that a forged record names is not asked", File: "decide.go",
		Old: "return decision{verb: annul, record: s.annulled()}", New: "return s.next()",
		Caught: "TestAForgedEpochThatBeginsMeanwhileIsAskedToLetGo",
	},
	{
		Name: "who has owned an object that is set apart is forgotten", File: "govern.go",
		Old: "settled.apart[v.uid] = slices", New: "settled.apart[v.uid], _ = nil, slices",
		Caught: "TestAnObjectThatWasSetApartIsTakenFromWhoeverMayHaveOwnedIt",
	},
	{
		Name: "one object out of place keeps the whole history", File: "govern.go",
		Old: "ok && err == nil && unrest > maxSettling", New: "ok && err == nil && unrest < 0",
		Caught: "TestAnObjectThatAPolicyDeniesDoesNotKeepTheHistoryGrowing",
	},
	{
		Name: "a drain label that somebody sets gives an object away", File: "record.go",
		Old: "	if !drained || value == \"\" || value != root.GetLabels()[n.seal] {", New: "	if _ = value; !drained {",
		Caught: "TestAShardGivesAnObjectToWhoIsNext",
	},
	{
		Name: "a root is given away before its children", File: "record.go",
		Old: "if heir == nil || family || len(r.Left) > 0 {", New: "if _ = family; heir == nil || len(r.Left) > 0 {",
		Caught: "TestAShardGivesAnObjectToWhoIsNext",
	},
	{
		Name: "an object is given away before all have been asked", File: "record.go",
		Old: "if heir == nil || family || len(r.Left) > 0 {", New: "if heir == nil || family {",
		Caught: "TestAShardGivesAnObjectToWhoIsNext",
	},
	{
		Name: "a sharder has roots given away before their children", File: "decide.go",
		Old: "	if s.family || len(s.record.Left) > 0 ||", New: "	if len(s.record.Left) > 0 ||",
		Caught: "TestWhoIsNext",
	},
	{
		Name: "a shard that is no member is told who is next", File: "decide.go",
		Old: "|| !s.resident || !s.target.current {", New: "|| !s.target.current {",
		Caught: "TestWhoIsNext",
	},
	{
		Name: "a shard is not told that another is next", File: "decide.go",
		Old: "(!s.drain || s.heir != nil && *s.heir != s.target.tenant)", New: "!s.drain",
		Caught: "TestWhoIsNextMayChangeBeforeAnObjectIsGivenAway",
	},
	{
		Name: "the history forgets who may still be given an object", File: "govern.go",
		Old: "	for _, m := range e.ledger.known.memberships {\n		if slices.ContainsFunc(m, func(t tenant) bool { return", New: "	for _, m := range e.ledger.known.memberships {\n		if slices.ContainsFunc(m, func(t tenant) bool { return false &&",
		Caught: "TestTheHistoryNamesAFormerMemberUntilItIsOver",
	},
	{
		Name: "a ring has ended although a forged epoch has begun", File: "strip.go",
		Old: "left == 0 && len(forged) <= known {", New: "left == 0 && known >= 0 {",
		Caught: "TestStripLabelsDoesNotWaitForAnEpochThatHasNeverBeen",
	},
	{
		Name: "the record of another object stays", File: "root.go",
		Old: "	v.foreign = n.foreign(o)\n", New: "",
		Caught: "TestCopiedAnnotationsAreNoReasonToWriteForEver",
	},
}

// TestSimulatedMutationsOfSafeguardsAreCaught has a name that keeps it with the simulations, because it takes builds.
func TestSimulatedMutationsOfSafeguardsAreCaught(t *testing.T) {
	mutation.Catch(t, safeguards, os.Getenv(sim.SoakVariable) != "")
}
