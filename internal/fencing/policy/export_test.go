package policy

import "slices"

// DecideWithout decides as if gates had been forgotten.
func DecideWithout(in Input, forgotten ...string) Decision {
	return decide(in, slices.DeleteFunc(slices.Clone(gates[:]), func(g gate) bool {
		return slices.Contains(forgotten, g.name)
	}))
}
