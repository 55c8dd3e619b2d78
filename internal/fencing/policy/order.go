package policy

import (
	"cmp"
	"slices"
)

// Order returns the queue in the order in which to ask for its nodes: workers before the control
// plane, then those that have failed longest, then by name. What it is given stays as it is.
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
