//go:build !race

package fencing_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/proof"
)

func TestSimulatedLossOf60Of100(t *testing.T) {
	proof.Simulation(t)
	inWorld(t, 100, func(w *world) {
		c := w.start("a", nil)
		defer c.stop()
		wait(w.ctx, settled)
		for i := range 60 {
			w.cutOff(fmt.Sprintf("n%d", i+1), true)
		}
		wait(w.ctx, 5*time.Minute)
		assert.Empty(t, w.rack.Events())
		f := w.fence("n1")
		require.NotNil(t, f.Status.Hold)
		assert.Contains(t, []string{"Storm", "CoolDown"}, f.Status.Hold.Reason)
		assert.NotEmpty(t, f.Status.Hold.Message)
	})
}

func TestSimulatedLossOf30Of100(t *testing.T) {
	proof.Simulation(t)
	inWorld(t, 100, func(w *world) {
		c := w.start("a", func(c *fencing.Config) { c.Limits.MaxConcurrent, c.Limits.MaxStarts = 3, 1000 })
		defer c.stop()
		wait(w.ctx, settled)
		for i := range 30 {
			w.cutOff(fmt.Sprintf("n%d", i+1), true)
		}
		most, left := 0, 30
		for began := time.Now(); left > 0 && time.Since(began) < 3*time.Hour; wait(w.ctx, 250*time.Millisecond) {
			off := 0
			left = 0
			for i := range 30 {
				node := fmt.Sprintf("n%d", i+1)
				if !w.rack.On(node) {
					off++
					w.cutOff(node, false)
				}
				if w.rack.Count(node, "power", agent.ActionOn) == 0 {
					left++
				}
			}
			most = max(most, off)
		}
		assert.Zero(t, left)
		assert.Equal(t, 3, most)
		for i := range 30 {
			assert.Equal(t, 1, w.rack.Count(fmt.Sprintf("n%d", i+1), "power", agent.ActionOff))
		}
	})
}

// It takes a while until the record of a fence that may begin says that it has. Those that ask
// meanwhile count it.
func TestSimulatedRateWithSlowWrites(t *testing.T) {
	proof.Simulation(t)
	const lost, limit, window = 5, 2, 10 * time.Minute
	inWorld(t, 12, func(w *world) {
		c := w.start("a", func(c *fencing.Config) {
			c.Limits.MaxConcurrent, c.Limits.MaxStarts, c.Limits.StartWindow = 3, limit, window
		}, func(c *apisim.Client) { c.Inject(apisim.Faults{Latency: 50 * time.Millisecond}) })
		defer c.stop()
		wait(w.ctx, settled)
		for i := range lost {
			w.cutOff(fmt.Sprintf("n%d", i+1), true)
		}
		var starts []time.Time
		w.eventually(3*time.Hour, "all are fenced", func() bool {
			starts = nil
			for i := range lost {
				node := fmt.Sprintf("n%d", i+1)
				if !w.rack.On(node) {
					w.cutOff(node, false)
				}
				if f := w.fence(node); f != nil && f.Status.Phase == v1alpha1.PhaseFinal {
					require.Len(t, f.Status.Problems.Starts, 1)
					starts = append(starts, f.Status.Problems.Starts[0].Time)
				}
			}
			return len(starts) == lost
		})
		slices.SortFunc(starts, time.Time.Compare)
		for i, start := range starts[limit:] {
			assert.GreaterOrEqual(t, start.Sub(starts[i]), window, "%d starts in %v", limit+1, window)
		}
	})
}
