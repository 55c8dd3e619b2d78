package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

func TestDefaultLimits(t *testing.T) {
	l := policy.Limits{}.WithDefaults()
	assert.Equal(t, policy.Limits{
		NotReadyFor: 30 * time.Second, StormPercent: 50, CoolDown: 5 * time.Minute, Observation: 40 * time.Second,
		LeaseSilence: 40 * time.Second, APISilence: 15 * time.Second, MaxConcurrent: 1, MaxStarts: 10,
		StartWindow: time.Hour,
		MaxRepeats:  3, RepeatWindow: time.Hour,
	}, l)
	assert.NoError(t, l.Validate())
	assert.NoError(t, policy.Limits{}.Validate())
	assert.NoError(t,
		policy.Limits{StormPercent: 1, FenceReadyNodes: []string{"KernelDeadlock", "ReadonlyFilesystem"}}.Validate())
	assert.NoError(t, policy.Limits{StormPercent: 100, PodsPerMinute: 1}.Validate())
}

func TestInvalidLimits(t *testing.T) {
	err := policy.Limits{
		NotReadyFor: -1, StormPercent: 101, CoolDown: -2, Observation: -3, LeaseSilence: -4, APISilence: -5,
		MaxConcurrent: -6, MaxStarts: -7,
		StartWindow: -8, MaxRepeats: -9, RepeatWindow: -10, PodsPerMinute: -11,
		FenceReadyNodes: []string{"", "Ready", "Same", "Same"},
	}.Validate()
	require.Error(t, err)
	assert.Equal(t, `fencing: Limits.NotReadyFor: must not be negative (got -1ns)
fencing: Limits.CoolDown: must not be negative (got -2ns)
fencing: Limits.Observation: must not be negative (got -3ns)
fencing: Limits.APISilence: must not be negative (got -5ns)
fencing: Limits.StartWindow: must not be negative (got -8ns)
fencing: Limits.RepeatWindow: must not be negative (got -10ns)
fencing: Limits.LeaseSilence: must be at least 10s (got -4ns)
fencing: Limits.StormPercent: must be from 1 to 100 (got 101)
fencing: Limits.MaxConcurrent: must not be negative (got -6)
fencing: Limits.MaxStarts: must not be negative (got -7)
fencing: Limits.MaxRepeats: must not be negative (got -9)
fencing: Limits.PodsPerMinute: must not be negative (got -11)
fencing: Limits.FenceReadyNodes[0]: must be the type of a condition (got "")
fencing: Limits.FenceReadyNodes[1]: must be another condition, as no Ready node fails for not being Ready (got Ready)
fencing: Limits.FenceReadyNodes[3]: must be there once (got Same)`, err.Error())
	assert.ErrorContains(t, policy.Limits{StormPercent: -1}.Validate(),
		"fencing: Limits.StormPercent: must be from 1 to 100 (got -1)")
}

// TestLeaseSilenceOutlastsTheViews has the shortest LeaseSilence outlast the interval of views, one
// second: with a shorter one, each view would begin the observation again, and no node would ever be
// fenced.
func TestLeaseSilenceOutlastsTheViews(t *testing.T) {
	assert.NoError(t, policy.Limits{LeaseSilence: 10 * time.Second}.Validate())
	for _, silence := range []time.Duration{1, 999 * time.Millisecond, 10*time.Second - 1} {
		assert.ErrorContains(t, policy.Limits{LeaseSilence: silence}.Validate(),
			"fencing: Limits.LeaseSilence: must be at least 10s (got "+silence.String()+")")
	}
}
