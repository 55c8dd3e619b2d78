package clock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestElapsedTime(t *testing.T) {
	epoch := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	reading := func(wall, monotonic, suspended time.Duration) Reading {
		return Reading{Wall: epoch.Add(wall), Monotonic: monotonic, Suspended: suspended}
	}
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		name          string
		from, to      Reading
		least, utmost time.Duration
	}{
		{"all agree", reading(0, 5*s, 0), reading(3*s, 8*s, 0), 3 * s, 3 * s},
		{"wall clock stepped back", reading(0, 5*s, 0), reading(-time.Hour, 8*s, 0), 3 * s, 3 * s},
		{
			"wall clock stepped forward, or set after a virtual machine was paused", reading(0, 0, 0),
			reading(time.Hour, 3*s, 0), 3 * s, time.Hour,
		},
		{"suspended", reading(0, 0, 9*s), reading(3*s, 3*s, 69*s), 3 * s, 63 * s},
		{"suspended, and the wall clock set", reading(0, 0, 0), reading(63*s, 3*s, 60*s), 3 * s, 63 * s},
		{"noise of two clocks", reading(0, 0, 9*ms), reading(3*s, 3*s, 0), 3 * s, 3 * s},
		{"noise the other way", reading(0, 0, 0), reading(3*s, 3*s, 9*ms), 3 * s, 3 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.least, c.to.SinceAtLeast(c.from))
			assert.Equal(t, c.utmost, c.to.SinceAtMost(c.from))
		})
	}
}

func TestSystemClockIsThatOfTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := System()
		begin := c.Now()
		<-c.NewTimer(time.Hour).C()
		assert.Equal(t, time.Hour, c.Now().SinceAtLeast(begin))
		assert.Equal(t, time.Hour, c.Now().SinceAtMost(begin))
	})
}

func TestTimeoutSaysWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := WithTimeout(t.Context(), System(), time.Minute)
		defer cancel()
		_, has := ctx.Deadline()
		assert.False(t, has, "others would compare it with their clock")
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
		assert.EqualError(t, context.Cause(ctx), "no answer within 1m0s")

		late, cancel := WithTimeout(t.Context(), System(), -time.Millisecond) // past a deadline
		defer cancel()
		<-late.Done()
		assert.EqualError(t, context.Cause(late), "no time was left for an answer")

		early, cancel := WithTimeout(t.Context(), System(), time.Minute)
		cancel()
		assert.ErrorIs(t, context.Cause(early), context.Canceled)
	})
}
