package leasehold

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// mutations remove safeguards that only count when a process has been stopped, when events are
// late, or when somebody writes too often: the simulations meet those too seldom.
var mutations = []mutation.Mutation{
	{
		Name: "the guard does not look at the clock", File: "inflight.go",
		Old: "if t.state != held || left <= 0 || ", New: "if t.state != held || ", Caught: "TestGuardLooksAtTheClock",
	},
	{
		Name: "work begins past the deadline", File: "term.go",
		Old:    "	return t.state == held && t.left(now) > 0\n}\n\n// extend",
		New:    "	return t.state == held && !now.Wall.IsZero()\n}\n\n// extend",
		Caught: "TestNoWorkBeginsPastTheDeadline",
	},
	{
		Name: "an expired term is extended again", File: "term.go",
		Old:    "(t.state == held || t.state == ending) && t.left(now) > 0",
		New:    "(t.state == held || t.state == ending) && !now.Wall.IsZero()",
		Caught: "TestExpiredTermIsNotExtended",
	},
	{
		Name: "a context does not show that its term is lost", File: "term.go",
		Old: "	t.state = lost\n	close(t.over)\n", New: "	t.state = lost\n",
		Caught: "TestAContextShowsWhenItsTermIsOver",
	},
	{
		Name: "a context does not show that its term has ended", File: "term.go",
		Old: "		t.state = ending\n		close(t.over)\n", New: "		t.state = ending\n",
		Caught: "TestAContextShowsWhenItsTermIsOver",
	},
	{
		Name: "an older deletion ends the term", File: "foreign_writes.go",
		Old: "case deleted && order >= 0:", New: "case deleted:", Caught: "TestOlderEventsAreNoLoss",
	},
	{
		Name: "what is abandoned is not waited for until the server's bound", File: "drain.go",
		Old: "return a.bound + margin - ", New: "return margin - ",
		Caught: "TestScopeIsOpenAsLongAsARequestMayBeCarriedOut",
	},
	{
		Name: "a timeout that is written in another way is overlooked", File: "guard.go",
		Old: ` && !strings.Contains(raw, "%")`, New: "", Caught: "TestServerGivesUpWhenTheTermEnds",
	},
	{
		Name: "closed upgrades are kept", File: "guard.go",
		Old:    "	err := c.ReadWriteCloser.Close()\n	c.request.end()\n",
		New:    "	err := c.ReadWriteCloser.Close()\n",
		Caught: "TestClosedUpgradedConnectionsAreForgotten",
	},
	{
		Name: "an older version replaces a newer one", File: "swap.go",
		Old: "!wrote && a.writes <= w.moved", New: "!wrote && a.writes < 0",
		Caught: "TestAnswersOfOvertakenReadsAreNotLearned",
	},
	{
		Name: "a supervisor writes without a condition", File: "deadprocess.go",
		Old:    "shardrecord.MarkCrash(l, o.Work.Objects, o.Work.All)",
		New:    "shardrecord.MarkCrash(l, o.Work.Objects, o.Work.All)\n			l.ResourceVersion = \"\"",
		Caught: "TestOrphanIsReleasedByAConditionalWrite",
	},
	{
		Name: "a supervisor writes from a version of another process", File: "deadprocess.go",
		Old: "return r.WrittenBy(o.Process) && r.UID()", New: "return r.Exists() && r.UID()",
		Caught: "TestOrphanIsReleasedFromWhatItsProcessHasLeft",
	},
	{
		Name: "a supervisor writes a version without a condition", File: "deadprocess.go",
		Old: ` && r.ResourceVersion() != ""`, New: "", Caught: "TestOrphanIsReleasedFromWhatItsProcessHasLeft",
	},
	{
		Name: "requests that are not counted are not waited for", File: "../lease/deadprocess.go",
		Old: "o.Guarded && o.Open == 0", New: "o.Open == 0", Caught: "TestReleaseOfAnOrphanWaitsForItsRequests",
	},
	{
		Name: "a process in a crash loop gives its lease away", File: "../lease/deadprocess.go",
		Old: "case died-o.Since < o.MinUptime:", New: "case o.MinUptime < 0:", Caught: "TestOrphanIsNotReleased",
	},
	{
		Name: "a record names a Pod whose message has no mark", File: "pod.go",
		Old: " && b.show() {", New: " {\n		b.show()", Caught: "TestNothingNamesAPodWithoutAMark",
	},
	{
		Name: "a container in a crash loop gives its lease away", File: "pod.go",
		Old: " && age >= pod.MinUptime", New: "", Caught: "TestRecordNamesThePod",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	mutation.Catch(t, mutations)
}
