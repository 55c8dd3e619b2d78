//go:build !race

package proxy

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// safeguards are mutations that a test of this package must catch by name. See package sharder for those
// that a simulation must catch.
var safeguards = []mutation.Mutation{
	{
		Name: "lists and watches show all objects", File: "proxy.go",
		Old: "		query.Set(\"labelSelector\", p.selecting(e.role, query))\n", New: "",
		Caught: "TestTwoProgramsShareTheObjects",
	},
	{
		Name: "the selector of the program is lost", File: "proxy.go",
		Old: "return program + \",\" + own", New: "_ = program", Caught: "TestACollectionIsDeletedOneByOne",
	},
	{
		Name: "objects that are let go of are shown", File: "proxy.go",
		Old: "own += \",!\" + api.DrainLabel(p.lease.Ring())", New: "_ = own",
		Caught: "TestAWriteThatHangsDoesNotHoldUpAHandover",
	},
	{
		Name: "a child that is marked is lost sight of", File: "proxy.go",
		Old: "if of == root {", New: "if of != outside {", Caught: "TestAMarkedChildStaysInSight",
	},
	{
		Name: "each replica is shown what is not in the ring's namespaces", File: "proxy.go",
		Old: " && !listed {", New: " && (true || listed) {",
		Caught: "TestARingOfSomeNamespaces",
	},
	{
		Name: "marks are shown", File: "marks.go",
		Old: "m.labels, m.annotations = api.WithoutMarks(m.labels), api.WithoutMarks(m.annotations)", New: "_ = m",
		Caught: "TestTwoProgramsShareTheObjects",
	},
	{
		Name: "marks are shown in watches", File: "proxy.go",
		Old: "return editStream(to, from, c, edit)", New: "_, err := io.Copy(to, from); return err",
		Caught: "TestWatchesShowOnlyOwnObjects",
	},
	{
		Name: "marks are shown in lists", File: "proxy.go",
		Old: "return c.editList(to, from, edit)", New: "_, err := io.Copy(to, from); return err",
		Caught: "TestTwoProgramsShareTheObjects",
	},
	{
		Name: "a list that is cut off passes for a whole one", File: "codec_json.go",
		Old: "fmt.Errorf(\"read a list: %w\", err)", New: "err",
		Caught: "TestAListThatIsCutOffIsAnError",
	},
	{
		Name: "an encoding that cannot be edited is asked for", File: "proxy.go",
		Old:    "readable(r.In.Header.Get(\"Accept\"))",
		New:    "r.In.Header.Get(\"Accept\")",
		Caught: "TestOnlyWhatCanBeEditedIsAskedFor",
	},
	{
		Name: "writes pass", File: "decide.go",
		Old: "	}\n	return do\n}", New: "	}\n	return pass\n}", Caught: "TestTwoProgramsShareTheObjects",
	},
	{
		Name: "a path that can be read in two ways passes", File: "request.go",
		Old: "return request{verb: \"ambiguous\"}", New: "return request{}", Caught: "TestWhatCannotBeReadIsRefused",
	},
	{
		Name: "a request does not end when its object has to go", File: "write.go",
		Old:    "			prepared, pinned, err := prepare(r.WithContext(ctx), current)",
		New:    "			prepared, pinned, err := prepare(r, current)",
		Caught: "TestAWriteThatHangsDoesNotHoldUpAHandover",
	},
	{
		Name: "the program reads the answer in Do", File: "write.go",
		Old:    "			p.reverse.ServeHTTP(result, prepared)",
		New:    "			p.reverse.ServeHTTP(w, prepared)\n			result.code = http.StatusOK",
		Caught: "TestAProgramThatReadsSlowlyDoesNotHoldUpAHandover",
	},
	{
		Name: "an update removes marks", File: "write.go",
		Old: "			keep(m, current)\n", New: "",
		Caught: "TestTwoProgramsShareTheObjects",
	},
	{
		Name: "an update without a version restores marks", File: "write.go",
		Old: "m.resourceVersion, pinned = current.resourceVersion, true", New: "pinned = true",
		Caught: "TestMarksAreKeptAsTheyAreWhenTheWriteArrives",
	},
	{
		Name: "a write that the proxy has pinned is not sent again", File: "write.go",
		Old: "if !pinned || attempt == attempts ||", New: "if _ = attempt; pinned || true ||",
		Caught: "TestMarksAreKeptAsTheyAreWhenTheWriteArrives",
	},
	{
		Name: "an update of another version gets the marks of the cache's", File: "write.go",
		Old: "			default:\n				return errStale", New: "			default:",
		Caught: "TestAStaleUpdateIsAConflict",
	},
	{
		Name: "an update that the cache does not know is a conflict", File: "write.go",
		Old: "if errors.Is(err, errStale) && !isPresent {", New: "if isPresent {",
		Caught: "TestAStaleUpdateIsAConflict",
	},
	{
		Name: "a stale update is a bad request", File: "write.go",
		Old:    "case errors.Is(err, errStale): p.failed(result, e, conflict(e.q, errStale))",
		New:    "case err == nil && isPresent:\n				p.failed(result, e, conflict(e.q, errStale))",
		Caught: "TestAStaleUpdateIsAConflict",
	},
	{
		Name: "an object that has the name of another is written to", File: "write.go",
		Old: "	case o.UID != uid:", New: "	case false:", Caught: "TestAnObjectOfTheSameNameIsAnother",
	},
	{
		Name: "a JSON patch restores marks", File: "patch.go",
		Old:    "		tests = append(tests, test(\"/metadata/resourceVersion\", current.resourceVersion))\n",
		New:    "",
		Caught: "TestMarksAreKeptAsTheyAreWhenTheWriteArrives",
	},
	{
		Name: "a JSON patch of all labels removes marks", File: "patch.go",
		Old:    "withoutNil(withMarksOf(value, have))",
		New:    "withoutNil(withMarksOf(value, map[string]string{\"\": have[\"\"]}))",
		Caught: "TestJSONPatchesKeepTheMarks",
	},
	{
		Name: "a JSON patch changes a mark", File: "patch.go",
		Old: "		mark := markAt(o.Path)", New: "		mark := false", Caught: "TestJSONPatchesKeepTheMarks",
	},
	{
		Name: "a JSON patch copies a mark", File: "patch.go",
		Old: "if mark || markAt(o.From) {", New: "if mark {", Caught: "TestJSONPatchesKeepTheMarks",
	},
	{
		Name: "a merge patch changes a mark", File: "patch.go",
		Old: "return isMark(key) })", New: "return false })", Caught: "TestMergePatchesKeepTheMarks",
	},
	{
		Name: "a merge patch of no labels removes marks", File: "patch.go",
		Old:    "for key := range api.WithoutMarks(have) {",
		New:    "_ = api.WithoutMarks\n			for key := range have {",
		Caught: "TestMergePatchesKeepTheMarks",
	},
	{
		Name: "a merge patch leaves what is new", File: "patch.go",
		Old:    "		meta[\"resourceVersion\"], _ = json.Marshal(current.resourceVersion)\n",
		New:    "",
		Caught: "TestMergePatchesKeepTheMarks",
	},
	{
		Name: "a directive removes marks", File: "patch.go",
		Old: "return strings.HasPrefix(key, \"$\")", New: "return false", Caught: "TestMergePatchesKeepTheMarks",
	},
	{
		Name: "a directive removes all metadata", File: "patch.go",
		Old: "	if replaces(meta) {", New: "	if false {", Caught: "TestMergePatchesKeepTheMarks",
	},
	{
		Name: "a directive replaces the object", File: "patch.go",
		Old: "	if replaces(patch) {", New: "	if false {", Caught: "TestMergePatchesKeepTheMarks",
	},
	{
		Name: "a JSON patch copies all labels", File: "patch.go",
		Old: "&& holdsMarks(o.From) {", New: "&& false {", Caught: "TestJSONPatchesKeepTheMarks",
	},
	{
		Name: "a client repeats a creation that may have been decided on from a stale cache", File: "write.go",
		Old:    "case errors.Is(err, shard.ErrNotYet) && e.q.verb == \"create\"",
		New:    "case errors.Is(err, shard.ErrUnguarded) && e.q.verb == \"create\"",
		Caught: "TestACreationIsDecidedOnAgain",
	},
	{
		Name: "the time of a root that has moved begins before its program can see it", File: "moves.go",
		Old:    "			m.come[root.GetUID()] = &arrival{record: record}",
		New:    "			m.come[root.GetUID()] = &arrival{record: record, tried: time.Now()}",
		Caught: "TestARootThatHasMovedGetsNoSecondChild",
	},
	{
		Name: "a root gets a second child of what its former shard has created", File: "write.go",
		Old:    "case e.q.verb == \"create\" && p.moves.mayHave(",
		New:    "case e.q.verb == \"\" && p.moves.mayHave(",
		Caught: "TestARootThatHasMovedGetsNoSecondChild",
	},
	{
		Name: "a child is not stamped", File: "write.go",
		Old: "		m.labels = o.Labels\n", New: "", Caught: "TestMarksThatAreCopiedAreNotCreated",
	},
	{
		Name: "a child is created with the marks of another object", File: "write.go",
		Old: "		keep(m, objectMeta{}) // marks that were copied\n", New: "",
		Caught: "TestMarksThatAreCopiedAreNotCreated",
	},
	{
		Name: "an apply removes the stamp", File: "write.go",
		Old: "				m.labels[api.ShardLabel(p.lease.Ring())] = p.lease.Identity()\n", New: "",
		Caught: "TestAppliesHaveTheStampAndNoOtherMark",
	},
	{
		Name: "an apply sets marks", File: "write.go",
		Old:    "			keep(m, objectMeta{})\n			m.uid = cmp.Or(m.uid, current.uid)\n",
		New:    "			m.uid = cmp.Or(m.uid, current.uid)\n",
		Caught: "TestAppliesHaveTheStampAndNoOtherMark",
	},
	{
		Name: "an apply that creates a child is not a creation", File: "write.go",
		Old: "(isApply(r) || e.q.verb == \"update\" && e.q.subresource == \"\")", New: "e.q.verb == \"update\"",
		Caught: "TestAppliesHaveTheStampAndNoOtherMark",
	},
	{
		Name: "a child of nothing is refused", File: "write.go",
		Old: "if e.role == child && !p.follows(e.q, o) {", New: "if false {", Caught: "TestChildrenAreStampedAndFollow",
	},
	{
		Name: "a collection is deleted by the API server", File: "decide.go",
		Old: "		return doEach\n", New: "		return selectOwn\n", Caught: "TestACollectionIsDeletedOneByOne",
	},
	{
		Name: "what has moved fails the deletion of a collection", File: "write.go",
		Old: "&& one.outcome != Refused {", New: "{", Caught: "TestWhatMovesDuringADeletionIsLeftOut",
	},
	{
		Name: "a failure to delete is not said", File: "write.go",
		Old: "			failed = result\n			return errStopped", New: "			_ = errStopped",
		Caught: "TestADeletionOfACollectionEndsWithAFailure",
	},
	{
		Name: "the name of an election is that of all replicas in bodies", File: "election.go",
		Old: "			m.name, named = l.ownName(), true\n", New: "			named = true\n",
		Caught: "TestItsOwnElection",
	},
	{
		Name: "the name of an election is that of the shard in answers", File: "election.go",
		Old: "	e.edit = l.show\n", New: "", Caught: "TestItsOwnElection",
	},
	{
		Name: "the object of an election has another owner, and goes with the shard", File: "election.go",
		Old: "			if len(m.owners) == 0 && e.q.verb", New: "			if e.q.verb",
		Caught: "TestTheObjectOfAnElectionGoesWithTheShard",
	},
	{
		Name: "a rehearsal writes", File: "rehearsal.go",
		Old: "		query[\"dryRun\"] = []string{metav1.DryRunAll}\n", New: "",
		Caught: "TestARehearsalChangesNothing",
	},
	{
		Name: "a rehearsal deletes", File: "rehearsal.go",
		Old: "{ o.DryRun = []string{metav1.DryRunAll} }", New: "{}", Caught: "TestARehearsalChangesNothing",
	},
	{
		Name: "a rehearsal runs commands in Pods", File: "rehearsal.go",
		Old: "if e.q.subresource == \"log\" {", New: "if true {", Caught: "TestARehearsalChangesNothing",
	},
	{
		Name: "a body may have any size", File: "body.go",
		Old: "if err == nil && len(data) > maxBody {", New: "if len(data) < 0 {",
		Caught: "TestBodiesOfUnknownLengthAreBounded",
	},
	{
		Name: "everybody on loopback has a way in", File: "access.go",
		Old: "[]byte(r.Header.Get(\"Authorization\")), wanted) != 1 {", New: "wanted, wanted) != 1 {",
		Caught: "TestOnlyTheProgramHasAWayIn",
	},
	{
		Name: "a merge patch reaches another object of that name", File: "patch.go",
		Old: "		meta[\"uid\"], _ = json.Marshal(current.uid)", New: "		_ = current.uid",
		Caught: "TestMergePatchesKeepTheMarks",
	},
	{
		Name: "a JSON patch reaches another object of that name", File: "patch.go",
		Old: "	tests := []operation{test(\"/metadata/uid\", current.uid)}", New: "	var tests []operation",
		Caught: "TestJSONPatchesKeepTheMarks",
	},
	{
		Name: "an apply reaches another object of that name", File: "write.go",
		Old:    "			m.uid = cmp.Or(m.uid, current.uid)\n			if e.role == child {",
		New:    "			if e.role == child {",
		Caught: "TestAppliesHaveTheStampAndNoOtherMark",
	},
	{
		Name: "a deletion reaches another object of that name", File: "deletion.go",
		Old: "			o.Preconditions.UID = (*types.UID)(&uid)\n", New: "			_ = types.UID(uid)\n",
		Caught: "TestDeletionsAreOfOneObject",
	},
	{
		Name: "the token of the program is sent on", File: "proxy.go",
		Old: "	r.Out.Header.Del(\"Authorization\")\n", New: "", Caught: "TestOnlyWhatCanBeEditedIsAskedFor",
	},
}

// TestMutationsOfSafeguardsAreCaught runs builds; its name keeps it with the simulations.
func TestMutationsOfSafeguardsAreCaught(t *testing.T) {
	mutation.Catch(t, safeguards)
}
