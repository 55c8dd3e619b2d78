//go:build !race

package nodestate_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// mutations are what may happen to somebody who does not know why a line is there. Each has to be
// caught by the test that is about it.
var mutations = []mutation.Mutation{
	{
		Name: "the first sight of a Lease is a renewal", File: "nodes.go", Old: ", stamp: stampOf(v)}", New: "}",
		Caught: "TestLeaseSilentFor",
	},
	{
		Name: "any version of a Lease is a renewal", File: "lease.go", Old: "!stamp.IsZero() && !stamp.Equal(&l.stamp)",
		New: "true || stamp.IsZero()", Caught: "TestLeaseSilentFor",
	},
	{
		Name: "only a later stamp is a renewal", File: "lease.go", Old: "!stamp.Equal(&l.stamp)",
		New: "stamp.After(l.stamp.Time)", Caught: "TestLeaseSilentFor",
	},
	{
		Name: "old versions are news", File: "lease.go", Old: "err == nil && order < 0",
		New: "err == nil && order < 0 && false", Caught: "TestWatchThatIsSetBackRenewsNothing",
	},
	{
		Name: "Leases rise from the dead", File: "nodes.go", Old: " || known.gone && known.uid == v.UID", New: "",
		Caught: "TestWatchThatIsSetBackRenewsNothing",
	},
	{
		Name: "everybody's Lease is the Node's", File: "node.go", Old: "l.owner != n.uid", New: "false",
		Caught: "TestLeasesOfOthersAreNoSign",
	},
	{
		Name: "any Lease is a node's", File: "nodes.go", Old: "v.Namespace != corev1.NamespaceNodeLease", New: "false",
		Caught: "TestLeasesOfOthersAreNoSign",
	},
	{
		Name: "the Lease of an earlier Node counts", File: "nodes.go", Old: "		l.renewed = time.Time{}\n	}\n}",
		New: "	}\n}", Caught: "TestNodeOfTheSameNameIsAnotherOne",
	},
	{
		Name: "names are identities", File: "nodes.go", Old: "known != nil && known.uid != v.UID", New: "false",
		Caught: "TestNodeOfTheSameNameIsAnotherOne",
	},
	{
		Name: "the end of an earlier Node is the end of this one", File: "nodes.go",
		Old: "known != nil && known.uid == uid {\n		n.forget", New: "known != nil {\n		n.forget",
		Caught: "TestNodeOfTheSameNameIsAnotherOne",
	},
	{
		Name: "who was there before was Ready", File: "node.go", Old: "ever = policy.Unknown",
		New:    "ever = policy.True",
		Caught: "TestEverReady",
	},
	{
		Name: "who joins may have been Ready", File: "node.go", Old: "ever = policy.False",
		New:    "ever = policy.Unknown",
		Caught: "TestEverReady",
	},
	{
		Name: "what was between is not seen", File: "node.go", Old: "before.change.Equal(&s.change)", New: "true",
		Caught: "TestNodeThatWasReadyInBetweenStartsAgain",
	},
	{
		Name: "a reboot is no interruption", File: "node.go", Old: "ok && !rebooted",
		New:    "ok && (rebooted || !rebooted)",
		Caught: "TestNodeThatWasReadyInBetweenStartsAgain",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	mutation.Catch(t, mutations)
}
