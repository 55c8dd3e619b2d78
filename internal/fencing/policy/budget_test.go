package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

func TestBudgetWithoutLimit(t *testing.T) {
	var b policy.Budget
	for range 1000 {
		var granted int
		b, granted = b.Take(now, 100, policy.Limits{})
		require.Equal(t, 100, granted)
	}
}

func TestBudget(t *testing.T) {
	limits := policy.Limits{PodsPerMinute: 60}
	var b policy.Budget
	take := func(at time.Duration, pods, want int) {
		t.Helper()
		var granted int
		b, granted = b.Take(now.Add(at), pods, limits)
		assert.Equal(t, want, granted)
	}
	// What was deleted before is not known.
	take(0, 1, 0)
	take(time.Second-1, 1, 0)
	take(time.Second, 10, 1)
	take(time.Second, 10, 0)
	take(3500*time.Millisecond, 10, 2)
	take(4*time.Second, 10, 1)
	// What is not used is saved for a while only.
	take(time.Hour, 3, 3)
	take(time.Hour, 10, 3)
	take(time.Hour, 10, 0)
	// Nothing costs nothing.
	take(2*time.Hour, 0, 0)
	take(2*time.Hour, -5, 0)
	take(2*time.Hour, 10, 6)
	// A clock that goes back grants nothing.
	take(time.Hour, 10, 0)
}

func TestBudgetKeepsThePace(t *testing.T) {
	for _, perMinute := range []int{1, 7, 30, 60, 600, 6000} {
		limits := policy.Limits{PodsPerMinute: perMinute}
		var b policy.Budget
		all := 0
		for second := range 600 {
			var granted int
			b, granted = b.Take(now.Add(time.Duration(second)*time.Second), math.MaxInt, limits)
			all += granted
		}
		assert.InDelta(t, 10*perMinute, all, float64(perMinute)/60+1, perMinute)
	}
}

func TestBudgetIsNeverRoundedInFavourOfHaste(t *testing.T) {
	limits := policy.Limits{PodsPerMinute: 7}
	b, _ := policy.Budget{}.Take(now, 1, limits)
	_, granted := b.Take(now.Add(time.Minute/7), 1, limits)
	assert.Zero(t, granted)
	_, granted = b.Take(now.Add(time.Minute/7+1), 1, limits)
	assert.Equal(t, 1, granted)
}

func TestBudgetOfAbsurdNumbers(t *testing.T) {
	b, _ := policy.Budget{}.Take(now, 1, policy.Limits{PodsPerMinute: -1})
	_, granted := b.Take(now.Add(time.Hour), math.MaxInt, policy.Limits{PodsPerMinute: -1})
	assert.Equal(t, 1, granted)
	b, _ = policy.Budget{}.Take(now, 1, policy.Limits{PodsPerMinute: math.MaxInt})
	_, granted = b.Take(now.Add(time.Second), 100, policy.Limits{PodsPerMinute: math.MaxInt})
	assert.LessOrEqual(t, granted, 100)
}

// TestBudgetPerMinute is the promise: in any minute as many as configured, and what was saved. The
// process may be another one at any time.
func TestBudgetPerMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := policy.Limits{PodsPerMinute: rapid.IntRange(1, 1000).Draw(t, "per minute")}
		type taken struct {
			at   time.Time
			pods int
		}
		var all []taken
		var b policy.Budget
		at := now
		for range rapid.IntRange(1, 50).Draw(t, "requests") {
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(30*time.Second)).Draw(t, "later")))
			if rapid.IntRange(0, 9).Draw(t, "another process") == 0 {
				b = policy.Budget{}
			}
			var granted int
			b, granted = b.Take(at, rapid.IntRange(1, 1000).Draw(t, "pods"), limits)
			all = append(all, taken{at, granted})
		}
		for i, last := range all {
			sum := 0
			for _, earlier := range all[:i+1] {
				if last.at.Sub(earlier.at) <= time.Minute {
					sum += earlier.pods
				}
			}
			if sum > limits.PodsPerMinute+limits.PodsPerMinute/12+1 {
				t.Fatalf("%d pods in the minute before %v", sum, last.at)
			}
		}
	})
}
