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
		var wait time.Duration
		b, wait = b.Take(now, 100, policy.Limits{})
		require.Zero(t, wait)
	}
}

func TestBudget(t *testing.T) {
	limits := policy.Limits{PodsPerMinute: 30}
	var b policy.Budget
	take := func(at time.Duration, pods int, want time.Duration) {
		t.Helper()
		var wait time.Duration
		b, wait = b.Take(now.Add(at), pods, limits)
		assert.Equal(t, want, wait)
	}
	// What was deleted before is not known.
	take(0, 1, time.Minute)
	take(20*time.Second, 1, 40*time.Second)
	// A StatefulSet goes at once, and is paid for then.
	take(time.Minute, 90, 0)
	take(time.Minute, 1, 3*time.Minute)
	take(2*time.Minute, 1, 2*time.Minute)
	take(4*time.Minute, 1, 0)
	take(4*time.Minute, 1, 2*time.Second)
	take(4*time.Minute+2*time.Second-1, 1, 1)
	take(4*time.Minute+2*time.Second, 1, 0)
	// Nothing costs nothing, and what was not used is not saved.
	take(time.Hour, 0, 0)
	take(time.Hour, -5, 0)
	take(time.Hour, 1, 0)
	take(time.Hour, 1, 2*time.Second)
}

func TestBudgetIsNeverRoundedInFavourOfHaste(t *testing.T) {
	limits := policy.Limits{PodsPerMinute: 7}
	b, _ := policy.Budget{}.Take(now.Add(-time.Hour), 1, limits)
	b, wait := b.Take(now, 1, limits)
	require.Zero(t, wait)
	_, wait = b.Take(now, 1, limits)
	assert.GreaterOrEqual(t, 7*wait, time.Minute)
	assert.Less(t, 7*(wait-1), time.Minute)
}

func TestBudgetOfAbsurdNumbers(t *testing.T) {
	b, _ := policy.Budget{}.Take(now.Add(-time.Hour), 1, policy.Limits{PodsPerMinute: 1})
	b, wait := b.Take(now, math.MaxInt, policy.Limits{PodsPerMinute: 1})
	require.Zero(t, wait)
	_, wait = b.Take(now, 1, policy.Limits{PodsPerMinute: 1})
	assert.Equal(t, policy.MaxTake*time.Minute, wait)
	_, wait = policy.Budget{}.Take(now, 1, policy.Limits{PodsPerMinute: -1})
	assert.NotZero(t, wait)
}

// TestBudgetPerMinute is the promise: in any minute as many as configured, and those of one request
// besides.
func TestBudgetPerMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := policy.Limits{PodsPerMinute: rapid.IntRange(1, 100).Draw(t, "per minute")}
		type taken struct {
			at   time.Time
			pods int
		}
		var all []taken
		var b policy.Budget
		at := now
		for range rapid.IntRange(1, 50).Draw(t, "requests") {
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(30*time.Second)).Draw(t, "later")))
			pods := rapid.IntRange(1, 50).Draw(t, "pods")
			var wait time.Duration
			if b, wait = b.Take(at, pods, limits); wait == 0 {
				all = append(all, taken{at, pods})
			}
		}
		for i, last := range all {
			sum := 0
			for _, earlier := range all[:i] {
				if last.at.Sub(earlier.at) <= time.Minute {
					sum += earlier.pods
				}
			}
			if sum > limits.PodsPerMinute {
				t.Fatalf("%d pods in the minute before %v, besides the %d then", sum, last.at, last.pods)
			}
		}
	})
}
