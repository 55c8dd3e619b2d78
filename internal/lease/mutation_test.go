package lease

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// mutations remove safeguards that the simulations need too seldom.
var mutations = []mutation.Mutation{
	{
		Name: "what another process of the same identity wrote is ours", File: "writelog.go",
		Old: `return process == "" || process == w.process`, New: `return process != "-"`,
		Caught: "TestWriteLogMatchesOnlyItsWrites",
	},
	{
		Name: "a read counts for the write that it has shown", File: "writelog.go",
		Old: "if pending && asked", New: "if (pending || true) && asked",
		Caught: "TestTermCountsFromTheReadBeforeTheStoredWrite",
	},
	{
		Name: "a read counts for a write that was sent after it", File: "writelog.go",
		Old: "pending && asked.SinceAtLeast(a.sent) > 0", New: "pending",
		Caught: "TestTermCountsFromTheReadBeforeTheStoredWrite",
	},
	{
		Name: "every new version restarts the wait", File: "takeover.go",
		Old: "	if !r.keepsSpecOf(s.record) {\n", New: "	{\n", Caught: "TestObservation",
	},
	{
		Name: "a lower version with the same spec keeps the start of the wait", File: "record.go",
		Old: "return known && order > 0 && ", New: "return known && order != 0 && ", Caught: "TestObservation",
	},
	{
		Name: "a spent version is swapped again", File: "takeover.go",
		Old: "func (s *Observation) Invalidate(taken bool) {\n	s.seen = false\n",
		New: "func (s *Observation) Invalidate(taken bool) {\n", Caught: "TestObservation",
	},
	{
		Name: "what another elector has taken is still the dead process'", File: "record.go",
		Old:    "	return strings.CutSuffix(r.object().Annotations[markOf(spec)], termMark(spec))",
		New:    "	process, _, ok = strings.Cut(r.object().Annotations[markOf(spec)], \"/\")\n	return process, ok",
		Caught: "TestPodOfAnotherHolderIsNoProof",
	},
	{
		Name: "the fields of others are no longer tracked", File: "record.go",
		Old: "len(entries) != 1 || ", New: "len(entries) == 0 || ", Caught: "TestRenewalGivesUpOnlyItsOwnManagedFields",
	},
	{
		Name: "applied fields are no longer tracked", File: "record.go",
		Old: "entries[0].Operation != metav1.ManagedFieldsOperationUpdate ||", New: "false ||",
		Caught: "TestRenewalGivesUpOnlyItsOwnManagedFields",
	},
	{
		Name: "another Pod of the name is proof", File: "podreport.go",
		Old: " || pod.UID != p.UID", New: "", Caught: "TestEndOfAProcessInItsPod",
	},
	{
		Name: "a leader that has died has written nothing", File: "record.go",
		Old:    "	if !r.Released() {\n		return handover.Unknown()\n",
		New:    "	if !r.Released() {\n		return handover.Versions{}\n",
		Caught: "TestWhatAReleaseSaysWasWritten",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	mutation.Catch(t, mutations)
}
