package leaderelection_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// simulatedClock is a [leaderelection.Clock] written with public names only.
type simulatedClock struct {
	clock.RealClock
	origin time.Time
	reads  atomic.Int64
}

func (c *simulatedClock) Now() leaderelection.ClockReading {
	c.reads.Add(1)
	now := time.Now()
	return leaderelection.ClockReading{Wall: now.Round(0), Monotonic: now.Sub(c.origin)}
}

func (c *simulatedClock) NewTimer(d time.Duration) clock.Timer { return c.RealClock.NewTimer(d) }

func (c *simulatedClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return c.RealClock.AfterFunc(d, f)
}

func TestClockCanBeImplementedOutside(t *testing.T) {
	c := &simulatedClock{origin: time.Now()}
	e, err := leaderelection.New(newAPI().client(), leaderelection.Config{Namespace: "ns", Name: "l", Clock: c})
	require.NoError(t, err)
	_, err = e.TryAcquire(t.Context())
	require.NoError(t, err)
	assert.Positive(t, c.reads.Load())
	require.NoError(t, e.Release(t.Context()))
}
