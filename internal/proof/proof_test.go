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
	kinds := []struct {
		name, target string
		skip         func(testing.TB)
	}{
		{"simulations", "simulations", proof.Simulation},
		{"mutations", "mutations", proof.Mutation},
		{"builds", "heavy", proof.Build},
	}
	for _, c := range []struct {
		prove, soak string
		run         []string
	}{
		{},
		{prove: "simulations", run: []string{"simulations"}},
		{prove: "mutations", run: []string{"mutations"}},
		{prove: "builds,simulations", run: []string{"builds", "simulations"}},
		{prove: "all"},
		{soak: "1m", run: []string{"simulations", "mutations", "builds"}},
	} {
		t.Setenv(proof.Variable, c.prove)
		t.Setenv(proof.SoakVariable, c.soak)
		for _, kind := range kinds {
			var s skipped
			kind.skip(&s)
			if s.reason == "" {
				assert.Contains(t, c.run, kind.name, "%+v", c)
				continue
			}
			assert.NotContains(t, c.run, kind.name, "%+v", c)
			assert.Equal(t, fmt.Sprintf("not asked for: make %s runs it (BELLWETHER_PROVE=%s)", kind.target, kind.name),
				s.reason)
		}
	}
}
