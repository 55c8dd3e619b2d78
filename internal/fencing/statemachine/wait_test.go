package statemachine_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

// TestClockThatIsSetShortensNoWaitOfThisProcess has the wall clock be set in a wait, and an admin
// annotate the record, so that the process reads it as the API server has stored it.
func TestClockThatIsSetShortensNoWaitOfThisProcess(t *testing.T) {
	for name, set := range map[string]time.Duration{"forward": 5 * time.Minute, "back": -5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, bmc())
			c.now.Wall = c.now.Wall.Add(123 * time.Nanosecond)
			c.phase(v1alpha1.PhaseIsolated)
			began := c.now.Monotonic
			c.rest(time.Minute)
			c.now.Wall = c.now.Wall.Add(set)
			stored, err := json.Marshal(c.status())
			require.NoError(t, err)
			var read v1alpha1.Status
			require.NoError(t, json.Unmarshal(stored, &read))
			*c.status() = read
			c.memory = c.memory.Adopt(c.now, &read)
			c.until(statemachine.OffIntent)
			assert.InDelta(t, 5*time.Minute, c.now.Monotonic-began, float64(2*time.Second))
		})
	}
}

// TestWaitOfAnotherProcessEndsByTheWallClock has another process begin the wait: what has passed of
// it is known from the record only. This process waits for the whole time at most.
func TestWaitOfAnotherProcessEndsByTheWallClock(t *testing.T) {
	for name, c := range map[string]struct{ set, left time.Duration }{
		"clocks agree": {0, 4 * time.Minute}, "this one is behind": {-time.Hour, 5 * time.Minute},
		"this one is ahead": {2 * time.Minute, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			r := newCluster(t, bmc())
			r.phase(v1alpha1.PhaseIsolated)
			r.rest(time.Minute)
			r.now.Wall = r.now.Wall.Add(c.set)
			r.restart()
			r.memory = r.memory.Adopt(r.now, r.status())
			began := r.now.Monotonic
			r.until(statemachine.OffIntent)
			assert.InDelta(t, c.left, r.now.Monotonic-began, float64(15*time.Second))
		})
	}
}
