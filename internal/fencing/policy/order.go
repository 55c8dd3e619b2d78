package policy

import (
	"cmp"
	"slices"
)

// Order returns the queue in the order of decisions: workers before the control plane, then the
// nodes that have failed longest, then by name. It does not change its argument.
func Order(queue []NodeFacts) []NodeFacts {
	return slices.SortedStableFunc(slices.Values(queue), func(a, b NodeFacts) int {
		return cmp.Or(
			cmp.Compare(rank(a.ControlPlane), rank(b.ControlPlane)),
			cmp.Compare(b.FailingFor, a.FailingFor),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

func rank(controlPlane bool) int {
	if controlPlane {
		return 1
	}
	return 0
}
