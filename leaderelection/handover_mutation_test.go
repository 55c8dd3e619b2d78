package leaderelection_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// A simulation sees this one only now and then: the next cache has to be late just then.
var handoverMutations = []mutation.Mutation{{
	Name: "the version is taken before the last write's answer", File: "../internal/leasehold/inflight.go",
	Old: "			f.write.Answered(resp)\n",
	New: "			select {\n			case <-left:\n				f.write.Refused()\n" +
		"			default:\n				f.write.Answered(resp)\n			}\n",
	Caught: "TestAWriteWithoutACallerIsKnown",
}}

func TestMutationsOfHandoversAreCaught(t *testing.T) {
	mutation.Catch(t, handoverMutations)
}
