package proof_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/proof"
)

// skipped records the reason for which a test was skipped.
type skipped struct {
	testing.TB
	reason string
}

func (s *skipped) Helper() {}

func (s *skipped) Skipf(format string, args ...any) { s.reason = fmt.Sprintf(format, args...) }

func TestProofsRunOnlyWhenAskedFor(t *testing.T) {
	for _, c := range []struct {
		prove, soak            string
		simulations, mutations bool
	}{
		{},
		{prove: "simulations", simulations: true},
		{prove: "mutations", mutations: true},
		{prove: "simulations,mutations", simulations: true, mutations: true},
		{prove: "all"},
		{soak: "1m", simulations: true, mutations: true},
	} {
		t.Setenv(proof.Variable, c.prove)
		t.Setenv(proof.SoakVariable, c.soak)
		var simulation, mutation skipped
		proof.Simulation(&simulation)
		proof.Mutation(&mutation)
		assert.Equal(t, c.simulations, simulation.reason == "", "simulations for %+v", c)
		assert.Equal(t, c.mutations, mutation.reason == "", "mutations for %+v", c)
		if !c.mutations {
			assert.Equal(t, "not asked for: make mutations runs it (BELLWETHER_PROVE=mutations)", mutation.reason)
		}
	}
}
