package shardlease_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// mutations remove what makes a claimed name the right one.
var mutations = []mutation.Mutation{
	{
		Name: "a claim does not wait for a shard that is leaving", File: "ordinal.go",
		Old: "o.leaving && now.SinceAtLeast(leavingSince) < c.config.ReturnWithin", New: "false",
		Caught: "TestWhichNameIsClaimed",
	},
	{
		Name: "a claim waits for a leaving shard for ever", File: "ordinal.go",
		Old: "o.leaving && now.SinceAtLeast(leavingSince) < c.config.ReturnWithin", New: "o.leaving",
		Caught: "TestWhichNameIsClaimed",
	},
	{
		Name: "a shard that must stop does not say so at once", File: "lease.go",
		Old: `		SaysLeaving: config.pod != "",` + "\n", New: "", Caught: "TestWhoIsLeavingSaysSoAtOnce",
	},
	{
		Name: "a shard that has left says that it is leaving", File: "../internal/leasehold/holder.go",
		Old: "	h.leaving = false // it has left\n", New: "", Caught: "TestWhoIsLeavingSaysSoAtOnce",
	},
	{
		Name: "who is expected back does not come first", File: "ordinal.go",
		Old: "now.Sub(l.Spec.RenewTime.Time).Abs() < within", New: "within < 0", Caught: "TestWhichNameIsClaimed",
	},
	{
		Name: "the last one to be released is claimed first", File: "ordinal.go",
		Old: "a.released.Compare(b.released)", New: "b.released.Compare(a.released)", Caught: "TestWhichNameIsClaimed",
	},
	{
		Name: "a restarted container claims another name", File: "ordinal.go",
		Old: "case c.named(name).reclaims(r, c.config.PodUID):", New: `case name == "":`,
		Caught: "TestNameOfAPodIsItsOwnAfterARestart",
	},
	{
		Name: "a name that another Pod has taken is given out", File: "ordinal.go",
		Old: "		case err == nil, kube.AccessDenied(err), ctx.Err() != nil:\n",
		New: "		case err == nil:\n			return l, nil\n		case kube.AccessDenied(err), ctx.Err() " +
			"!= nil:\n",
		Caught: "TestEachPodClaimsANameOfItsOwn",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	mutation.Catch(t, mutations)
}
