//go:build !race

package sharder_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// safeguards are mutations of lines whose loss a simulation finds rarely or late. A separate test
// of each fails at once without the line.
var safeguards = []mutation.Mutation{
	{
		Name: "a root that has lost its record begins without a floor", File: "assign.go",
		Old: "] = a.families.floor(holding{d.Label, i})", New: "], _ = \"\", i",
		Caught: "TestARootThatLosesItsRecordKeepsTheFloorOfItsChildren",
	},
	{
		Name: "a root that has lost its record, and may have been outside of the ring, begins without a floor",
		File: "family_mover.go",
		Old:  "case !m.root.Recorded && !b.any:", New: "case false:",
		Caught: "TestARootThatLosesItsRecordKeepsTheFloorOfItsChildren",
	},
	{
		Name: "a record does not say that its root was childless", File: "family_mover.go",
		Old: "r.Childless[name] = version", New: "",
		Caught: "TestARecordSaysAsOfWhenItsRootIsChildless",
	},
	{
		Name: "a sharder does not ask what shards were given before it", File: "family_mover.go",
		Old: "f.families.inDoubt(m.root.Ref) || f.assigner.unsurveyed(m.root)", New: "f.families.inDoubt(m.root.Ref)",
		Caught: "TestARootThatLosesItsRecordKeepsTheFloorOfItsChildren",
	},
	{
		Name: "an object that crashes its shards is not held back", File: "assign.go",
		Old: "if d.Verb == protocol.Assign && sit.Recorded {", New: "if false {",
		Caught: "TestAnObjectThatCrashesItsShardsIsHeldBack",
	},
	{
		Name: "what a process did not work on when it died is suspected", File: "suspects.go",
		Old: "case crash.Complete && !crash.AtWork(sit.UID):", New: "case false && crash.Complete:",
		Caught: "TestOnlyWhatAProcessWorkedOnIsSuspected",
	},
	{
		Name: "an object is held back although it was changed", File: "suspects.go",
		Old: "case sit.ChangedSince(held.Root):", New: "case false:",
		Caught: "TestAChangedObjectIsNotHeldBack",
	},
	{
		Name: "a new sharder does not know what was held back", File: "suspects.go",
		Old: "	if !sit.HeldBack() {", New: "	if true {",
		Caught: "TestANewSharderHoldsBackWhatTheFormerOneDid",
	},
	{
		Name: "a new object waits for a shard that may be dead", File: "assign.go",
		Old: "!sit.Recorded && sit.AsksOthers(d) && a.unwritten(ctx, *o)", New: "false && a.unwritten(ctx, *o)",
		Caught: "TestANewObjectGetsALivingOwnerAtOnce",
	},
	{
		Name: "an object that has lost its record is taken for a new one", File: "assign.go",
		Old:    "return err == nil && list.ResourceVersion == before && len(list.Items) == 0",
		New:    "return err == nil && list != nil",
		Caught: "TestAnObjectThatHasLostItsRecordIsNotNew",
	},
	{
		Name: "the page of a proxy proves that an object is new", File: "assign.go",
		Old:    "return err == nil && list.ResourceVersion == before && len(list.Items) == 0",
		New:    "return err == nil && len(list.Items) == 0",
		Caught: "TestAPageOfAProxyDoesNotProveThatAnObjectIsNew",
	},
	{
		Name: "new objects wait for the next scan to be balanced", File: "assign.go",
		Old: "err = a.planner.Admit(p, o.Hash)", New: "_ = p", Caught: "TestFewObjectsAreBalanced",
	},
	{
		Name: "objects are assigned among the living before the history says so",
		File: "internal/membership/planner.go",
		Old:  "if len(living) > 0 && len(living) < len(m) {", New: "if false {",
		Caught: "TestTheHistoryHasTheLivingAmongWhomNewObjectsAreAssigned",
	},
	{
		Name: "the history forgets among whom new objects are still assigned", File: "internal/membership/planner.go",
		Old: "if len(plan.living) > 0 {\n", New: "if false {\n",
		Caught: "TestTheHistoryHasTheLivingAmongWhomNewObjectsAreAssigned",
	},
	{
		Name: "an old record of an object may be restored", File: "internal/protocol/record.go",
		Old: "o.GetLabels()[n.Seal] == SealOf(value)", New: "o.GetLabels()[n.Seal] != \"\"",
		Caught: "TestARestoredOldRecordEndsNoWork",
	},
	{
		Name: "the records of all resources are in one annotation", File: "internal/protocol/keys.go",
		Old:    "	n.Record = api.RecordAnnotation(n.ring, resource)",
		New:    "	n.Record, _ = \"owner.x.bellwether.dev/\"+n.ring, resource",
		Caught: "TestCopiedAnnotationsAreNoReasonToWriteForEver",
	},
	{
		Name: "labels that are removed again and again are set as often", File: "assign.go",
		Old: "		if isRepair(*o, d) {", New: "		if false {",
		Caught: "TestLabelsThatAreRemovedAgainAndAgainAreSetEverMoreRarely",
	},
	{
		Name: "stamps that are removed again and again are set as often", File: "assign_child.go",
		Old:    "		if c.Label == \"\" {\n			if err := a.undone.await",
		New:    "		if false {\n			if err := a.undone.await",
		Caught: "TestStampsThatAreRemovedAgainAndAgainAreSetEverMoreRarely",
	},
	{
		Name: "an object without a controller is no child", File: "internal/protocol/children.go",
		Old: "; ok && hasSuch(r.Kind) {", New: "; ok && hasSuch(r.Kind) && false {",
		Caught: "TestChildrenWithoutAControllerAreThoseOfTheirOnlyOwner",
	},
	{
		Name: "an object with several owners is a child of one of them", File: "internal/protocol/children.go",
		Old: "	if n != 1 {", New: "	if n == 0 {",
		Caught: "TestChildrenWithoutAControllerAreThoseOfTheirOnlyOwner",
	},
	{
		Name: "pauses between repairs do not grow", File: "undone.go",
		Old: "r.pause = min(2*r.pause, maxUndonePause)", New: "r.pause = min(r.pause, maxUndonePause)",
		Caught: "TestLabelsThatAreRemovedAgainAndAgainAreSetEverMoreRarely",
	},
	{
		Name: "an object that is edited now and then waits", File: "undone.go",
		Old: "		return now.Sub(r.first) > undoneWithin", New: "		return false",
		Caught: "TestEditsNowAndThenAreRepairedAtOnce",
	},
	{
		Name: "a request that hangs keeps its place", File: "queue.go",
		Old: "if i.turn == t {", New: "if false {", Caught: "TestFirstAttemptsThatHangDelayOthersForSeconds",
	},
	{
		Name: "many requests that hang are all waited for", File: "queue.go",
		Old: "one.giveUp()", New: "_ = one.giveUp", Caught: "TestFirstAttemptsThatHangDelayOthersForSeconds",
	},
	{
		Name: "an object is patched while the API server may carry out a patch that was given up", File: "assign.go",
		Old: "now = now.Add(kube.RequestTimeout)", New: "_ = now",
		Caught: "TestFirstAttemptsThatHangDelayOthersForSeconds",
	},
	{
		Name: "slow requests are given up", File: "queue.go",
		Old: "case t.excess() > 0:", New: "default:", Caught: "TestSlowPatchesAreNotGivenUp",
	},
	{
		Name: "a held object is worked on when it is offered", File: "queue.go",
		Old: "(i.failures > patience || i.hung || i.held)", New: "(i.failures > patience || i.hung)",
		Caught: "TestAHeldObjectWaitsForItsTime",
	},
	{
		Name: "memory grows with each repaired object", File: "undone.go",
		Old: "		if r == nil && !u.room(now) {", New: "		if r == nil && !u.room(now) && false {",
		Caught: "TestRepairsAreBounded",
	},
	{
		Name: "any 404 proves that an object is gone", File: "objects.go",
		Old: "return kube.Absent(err, o.resource(r), r.Name)",
		New: "_ = kube.Absent\n	var status interface{ Status() metav1.Status }\n	return errors.As(err, " +
			"&status) && status.Status().Code == 404",
		Caught: "TestAPageOfAProxyDoesNotProveThatAnObjectIsGone",
	},
	{
		Name: "a patch is carried out on another object of that name", File: "internal/protocol/patch.go",
		Old: "		metadata[\"uid\"] = uid", New: "		_ = uid",
		Caught: "TestEveryPatchOfASharderNamesTheObjectAndItsVersion",
	},
	{
		Name: "objects are assigned before the history says among whom", File: "internal/membership/planner.go",
		Old:    "if err := p.history.begin(ctx, m, diverted); err != nil {\n		return nil, err",
		New:    "if err := ctx.Err(); err != nil {\n		return nil, err",
		Caught: "TestTheHistoryIsStoredBeforeAnythingIsAssigned",
	},
	{
		Name: "a Lease is deleted that the history names", File: "internal/membership/collector.go",
		Old: "if !ok || c.Named(shard) {", New: "if !ok {",
		Caught: "TestALeaseStaysWhileTheHistoryNamesIt",
	},
	{
		Name: "a new sharder does not wait to know of the drains under way", File: "feed.go",
		Old: "	counted.Wait()\n", New: "",
		Caught: "TestANewSharderCountsTheDrainsThatAreUnderWay",
	},
	{
		Name: "a resource that cannot be listed ends a scan", File: "scan.go",
		Old:    "			if ctx.Err() != nil {\n				return t, ctx.Err()",
		New:    "			if err != nil {\n				return t, err",
		Caught: "TestAResourceThatCannotBeListedStopsNoOther",
	},
	{
		Name: "a root that was outside of the ring is taken for a new one", File: "assign.go",
		Old: "!a.objects.roots[sit.Resource].Selector.Empty() ||\n", New: "false ||\n",
		Caught: "TestARootThatIsSelectedLaterIsNotTakenForANewOne",
	},
	{
		Name: "a sharder that is new takes roots for new ones", File: "assign.go",
		Old: "a.families.inDoubt(sit.Ref) || a.unsurveyed(sit.Root)", New: "false",
		Caught: "TestARootThatLosesItsRecordKeepsTheFloorOfItsChildren",
	},
	{
		Name: "a root whose move has ended halfway is taken for a new one", File: "assign.go",
		Old: "a.families.inDoubt(sit.Ref) || a.unsurveyed(sit.Root)", New: "a.unsurveyed(sit.Root)",
		Caught: "TestARootWhoseMoveHasEndedHalfwayIsNotTakenForANewOne",
	},
	{
		Name: "a scan ends the doubts from after its beginning", File: "families.go",
		Old: "return at <= ended })", New: "return at > 0 || ended > 0 })",
		Caught: "TestScanEndsTheDoubtsFromBeforeIt",
	},
	{
		Name: "a page has as many large objects as small ones", File: "object_source.go",
		Old: "	fitting := max(1, min(p.limit, ", New: "	fitting := max(p.limit, min(p.limit, ",
		Caught: "TestAPageOfLargeObjectsIsNotLarge",
	},
	{
		Name: "the Lease of a shard that was asked about is created for ever", File: "internal/membership/shards.go",
		Old: "		delete(s.asked, l.Name)", New: "		_ = s.asked",
		Caught: "TestALeaseThatWasCollectedIsNotCreatedAgain",
	},
	{
		Name: "a ring is settled although a resource is not known", File: "scan.go",
		Old: "errs := []error{s.objects.unserved}", New: "errs := []error{nil}",
		Caught: "TestAResourceThatIsNotServedIsPickedUpLater",
	},
	{
		Name: "a history that is lost is not recalled where a resource cannot be listed", File: "objects.go",
		Old: "	return err != nil, nil\n", New: "	return false, errors.Join(errs...)\n",
		Caught: "TestALostHistoryIsRecalledWhereAResourceCannotBeListed",
	},
	{
		Name: "nothing is asked about former members before somebody has to know",
		File: "internal/membership/planner.go",
		Old:  "	all.Go(func() { p.resolveFormerMembers(ctx) })\n", New: "",
		Caught: "TestANewObjectDoesNotWaitForTheProofThatAShardIsGone",
	},
	{
		Name: "a scan tries at once what has failed again and again", File: "queue.go",
		Old: "return (i.timer != nil || i.queued) && (i.failures > patience || i.hung || i.held)", New: "return false",
		Caught: "TestAnObjectThatAPolicyDeniesCostsLittle",
	},
	{
		Name: "a policy's refusal is taken for a conflict", File: "internal/protocol/patch.go",
		Old:    "	if apierrors.IsConflict(err) {",
		New:    "	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) {",
		Caught: "TestAnObjectThatAPolicyDeniesCostsLittle",
	},
	{
		Name: "a shard that a forged record names is not asked", File: "internal/protocol/decide.go",
		Old: "return Decision{Verb: Annul, Record: s.annulled()}", New: "return s.next()",
		Caught: "TestAForgedEpochThatBeginsMeanwhileIsAskedToLetGo",
	},
	{
		Name: "who has owned an object that is set apart is forgotten", File: "internal/membership/planner.go",
		Old: "settled.Displaced[v.UID] = slices", New: "settled.Displaced[v.UID], _ = nil, slices",
		Caught: "TestADisplacedObjectIsTakenFromEveryPossibleOwner",
	},
	{
		Name: "one object out of place keeps the whole history", File: "scan.go",
		Old: "ok && err == nil && delay > stuckAfter", New: "ok && err == nil && delay < 0",
		Caught: "TestAnObjectThatAPolicyDeniesDoesNotKeepTheHistoryGrowing",
	},
	{
		Name: "a shard is not told that another is next", File: "internal/protocol/decide.go",
		Old: "(!s.Drain || s.successor != nil && *s.successor != s.Target.OwnerEpoch)", New: "!s.Drain",
		Caught: "TestWhoIsNextMayChangeBeforeAnObjectIsGivenAway",
	},
	{
		Name: "the history does not say where keys are diverted to", File: "internal/membership/history.go",
		Old: "s.known = s.known.WithOwners(owners)", New: "_ = owners",
		Caught: "TestTheHistorySaysWhereKeysAreDiverted",
	},
	{
		Name: "a settled history forgets where keys are diverted to", File: "internal/membership/planner.go",
		Old: "settled.Displaced[keyed(hash)] = slices.DeleteFunc(owners, p.ended)", New: "_ = owners",
		Caught: "TestADivertedObjectThatLosesItsRecordIsAskedFor",
	},
	{
		Name: "a shard of weight 0 is a member", File: "internal/membership/members.go",
		Old: "rank, weight = 1, shardlease.DefaultWeight", New: "weight = shardlease.DefaultWeight",
		Caught: "TestADrainedShardLetsGo",
	},
	{
		Name: "the history forgets who may still be given an object", File: "internal/protocol/history.go",
		Old: "return !slices.Contains(m, t) &&", New: "return false && !slices.Contains(m, t) &&",
		Caught: "TestTheHistoryNamesAFormerMemberUntilItIsOver",
	},
	{
		Name: "a ring has ended although a forged epoch has begun", File: "strip.go",
		Old: "left == 0 && len(forged) <= known {", New: "left == 0 && known >= 0 {",
		Caught: "TestStripLabelsDoesNotWaitForAnEpochThatHasNeverBeen",
	},
	{
		Name: "the record of another object stays", File: "internal/protocol/root.go",
		Old: "	v.Foreign = n.foreign(o)\n", New: "",
		Caught: "TestCopiedAnnotationsAreNoReasonToWriteForEver",
	},
	{
		Name: "an earlier patch may assign a root while its children move", File: "family_mover.go",
		Old: "if err := f.protect(ctx, m); err != nil {", New: "if err := ctx.Err(); err != nil {",
		Caught: "TestALateAssignmentKeepsTheChildrenOfItsRoot",
	},
	{
		Name: "the children of a root move by a late event of the root", File: "family_mover.go",
		Old: "(o == nil || o.UID != r.UID || o.ResourceVersion != r.Version)", New: "o != nil && false",
		Caught: "TestALateEventOfARootMovesNoChild",
	},
	{
		Name: "an earlier patch may move a child that is in place", File: "family_mover.go",
		Old: "if there && !f.contested(m, c.Version) {", New: "if there {",
		Caught: "TestALatePatchOfAChildIsRefused",
	},
	{
		Name: "a child leaves its shard's sight while it gets another version", File: "family_mover.go",
		Old: "c.Version, label, there, nil))", New: "c.Version, map[bool]string{false: label}[there], there, nil))",
		Caught: "TestAShardDoesNotLoseSightOfTheChildrenOfAStrippedRoot",
	},
	{
		Name: "a root that is selected passes for one that is not", File: "families.go",
		Old: "	f.begin() // before the list\n", New: "",
		Caught: "TestChildrenOfRootsThatAreNotSelectedCostLittle",
	},
}

// TestMutationsOfSafeguardsAreCaught runs builds; its name keeps it with the simulations.
func TestMutationsOfSafeguardsAreCaught(t *testing.T) {
	mutation.Catch(t, safeguards)
}
