// Package proof runs the tests that take minutes only when they are asked for. A plain go test
// skips them and names the make target that runs them.
package proof

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Variable names the environment variable that asks for proofs. Its value is a list of kinds,
// separated by commas: simulations, mutations, builds.
const Variable = "BELLWETHER_PROVE"

// SoakVariable names an environment variable with a duration. With it, simulations run new
// schedules for that long, and every proof is asked for.
const SoakVariable = "BELLWETHER_SOAK"

const (
	simulations = "simulations"
	mutations   = "mutations"
	builds      = "builds"
)

// Simulation skips a test that simulates many schedules, unless simulations are asked for.
func Simulation(t testing.TB) {
	t.Helper()
	skipUnless(t, simulations, simulations)
}

// Mutation skips a test that builds and runs mutated code, unless mutations are asked for.
func Mutation(t testing.TB) {
	t.Helper()
	skipUnless(t, mutations, mutations)
}

// Build skips a test that compiles in a way that no other does, and therefore compiles the standard
// library again, unless builds are asked for.
func Build(t testing.TB) {
	t.Helper()
	skipUnless(t, builds, "heavy")
}

// OfMutant returns the environment for the test of a mutated program, in which simulations run, but
// no longer than for make simulations.
func OfMutant() []string {
	return append(os.Environ(), Variable+"="+simulations, SoakVariable+"=")
}

func skipUnless(t testing.TB, kind, target string) {
	t.Helper()
	if Soaking() || slices.Contains(strings.Split(os.Getenv(Variable), ","), kind) {
		return
	}
	t.Skipf("not asked for: make %s runs it (%s=%s)", target, Variable, kind)
}

// Soaking reports whether [SoakVariable] is set.
func Soaking() bool { return os.Getenv(SoakVariable) != "" }
