package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestClockRunsAtItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast := newClock(time.Hour, 1.25)
		begin, from := time.Now(), fast.Now()
		assert.Equal(t, begin.Add(time.Hour).UTC(), from.Wall.UTC())
		<-fast.NewTimer(10 * time.Second).C()
		assert.InDelta(t, 8*time.Second, time.Since(begin), 10)
		assert.InDelta(t, 10*time.Second, fast.Now().SinceAtLeast(from), 10)
		fast.step(-time.Minute)
		assert.InDelta(t, -50*time.Second, fast.Now().Wall.Sub(from.Wall), 10)
		assert.InDelta(t, 10*time.Second, fast.Now().SinceAtMost(from), 10)
	})
}

func TestPausedClock(t *testing.T) {
	for _, c := range []struct {
		name                          string
		how                           Pause
		monotonic, suspended, overdue time.Duration
	}{
		{name: "stopped", how: Stop, monotonic: 11 * time.Second},
		{
			name: "suspended", how: Suspend, monotonic: time.Second, suspended: 10 * time.Second,
			overdue: 4 * time.Second,
		},
		{name: "frozen", how: Freeze, monotonic: time.Second, overdue: 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := newClock(0, 1)
				from := clock.Now()
				fired := make(chan time.Time, 1)
				clock.AfterFunc(5*time.Second, func() { fired <- time.Now() })
				time.Sleep(time.Second)
				clock.stop(c.how)
				resumed := time.Now().Add(10 * time.Second)
				time.AfterFunc(10*time.Second, clock.resume)
				during := clock.Now()
				assert.Equal(t, resumed, time.Now(), "reads the clock, and stands still")
				assert.Equal(t, time.Second, during.SinceAtLeast(from), "with the time of before")
				now := clock.Now()
				assert.Equal(t, c.monotonic, now.Monotonic-from.Monotonic)
				assert.Equal(t, c.suspended, now.Suspended-from.Suspended)
				assert.Equal(t, 11*time.Second, now.Wall.Sub(from.Wall))
				assert.Equal(t, 11*time.Second, now.SinceAtMost(from))
				assert.InDelta(t, c.overdue, (<-fired).Sub(resumed), 10)
			})
		})
	}
}

func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newClock(0, 0.9)
		timer := clock.NewTimer(time.Second)
		assert.True(t, timer.Stop())
		assert.False(t, timer.Stop())
		assert.False(t, timer.Reset(time.Second))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.False(t, timer.Reset(time.Hour), "has fired")
		assert.Empty(t, timer.C(), "what was not received is gone")
		assert.True(t, timer.Reset(0))
		<-timer.C()
	})
}

func TestPauseAtAReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newClock(0, 1)
		clock.afterReadings(2, func() {
			clock.stop(Stop)
			time.AfterFunc(time.Minute, clock.resume)
		})
		begin := clock.Now()
		assert.Equal(t, begin, clock.Now(), "the reading is of before")
		assert.Equal(t, time.Minute, clock.Now().SinceAtLeast(begin))
	})
}
