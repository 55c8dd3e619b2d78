package sim_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/sim"
)

func toyScenario(fromResponse bool) sim.Scenario {
	return sim.Scenario{
		MinReplicas: 2, MaxReplicas: 3, RateError: 0.03, Unaware: 200 * time.Millisecond, Duration: 5 * time.Minute,
		Quiet: 30 * time.Second,
		Main:  func(ctx context.Context, p *sim.Process) { runToy(ctx, p, fromResponse) },
		Check: func(w *sim.World) error { return w.ExactlyOne("l") },
	}
}

func TestSimulatedToy(t *testing.T) { sim.Prove(t, toyScenario(false), sim.Schedules(t, 60)) }

func TestPlantedFaultIsFoundAndReplayed(t *testing.T) {
	scenario := toyScenario(true)
	scenario.Duration = 2 * time.Minute
	count, violation := sim.Explore(t, scenario, sim.First(200))
	require.NotNil(t, violation, "not found in %v", count)
	t.Logf("found by %v: %s", count, violation.Violation)
	file, err := violation.Record(t.TempDir())
	require.NoError(t, err)
	for range 3 {
		again, err := sim.Replay(t, scenario, file)
		require.NoError(t, err)
		assert.Equal(t, violation.Violation, again.Violation)
	}
}
