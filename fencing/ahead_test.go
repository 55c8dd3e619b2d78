package fencing_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// between is when something was under way.
type between struct{ from, to time.Time }

// A device that takes a second to answer is read while the node may still return, so that the power
// is off a second earlier.
func TestDevicesAreReadAhead(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		var mu sync.Mutex
		var over, off time.Time
		c := w.start("a", func(c *fencing.Config) {
			c.Hooks.OnTransition = func(_ *v1alpha1.NodeFence, reason string) {
				mu.Lock()
				defer mu.Unlock()
				if reason == "PowerWaitOver" {
					over = time.Now()
				}
			}
			c.Hooks.OnCommand = func(_, _ string, action agent.Action, _ time.Duration, _ error) {
				mu.Lock()
				defer mu.Unlock()
				if action == agent.ActionOff {
					off = time.Now()
				}
			}
		})
		defer c.stop()
		wait(w.ctx, settled)
		w.rack.Break("n1", fencingtest.Fault{Slow: time.Second})
		w.lose("n1")
		w.ends("n1", v1alpha1.PhaseFinal)
		w.requireFencedOnce("n1")
		mu.Lock()
		defer mu.Unlock()
		assert.Less(t, off.Sub(over), 1500*time.Millisecond, "the command alone takes a second")
	})
}

// Of many nodes that are lost together only some may go on: no more devices than that are read
// ahead at a time.
//
// Whether several fences get that far at one instant is left to the scheduler, so it is tried
// four times.
func TestFewDevicesAreReadAheadAtATime(t *testing.T) {
	for range 4 {
		readAheadOfMany(t)
	}
}

func readAheadOfMany(t *testing.T) {
	inWorld(t, 24, func(w *world) {
		var mu sync.Mutex
		var readings []between
		commanded := false
		c := w.start("a", func(c *fencing.Config) {
			c.Hooks.OnReading = func(_, _ string, _ agent.Power, took time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				if !commanded {
					readings = append(readings, between{time.Now().Add(-took), time.Now()})
				}
			}
			c.Hooks.OnTransition = func(_ *v1alpha1.NodeFence, reason string) {
				mu.Lock()
				defer mu.Unlock()
				commanded = commanded || reason == "PowerWaitOver"
			}
		})
		defer c.stop()
		wait(w.ctx, settled)
		for _, n := range []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7"} {
			w.rack.Break(n, fencingtest.Fault{Slow: 2 * time.Second})
			w.cutOff(n, true)
		}
		w.eventually(5*time.Minute, "one of them goes on",
			func() bool { mu.Lock(); defer mu.Unlock(); return commanded })
		mu.Lock()
		defer mu.Unlock()
		require.NotEmpty(t, readings)
		slices.SortFunc(readings, func(a, b between) int { return a.from.Compare(b.from) })
		for i, r := range readings[1:] {
			assert.False(t, r.from.Before(readings[i].to), "%v", readings)
		}
	})
}
