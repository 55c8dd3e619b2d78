package leaderelectiontest

import (
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// jumpingClock is the clock of the system or of the bubble, but can be moved forward.
type jumpingClock struct {
	origin time.Time

	mu      sync.Mutex
	skipped time.Duration // guarded by mu
	timers  []*timer      // guarded by mu: those that run
}

// Now implements leaderelection.Clock.
func (c *jumpingClock) Now() leaderelection.ClockReading {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := c.passed()
	return leaderelection.ClockReading{Wall: c.origin.Add(passed).Round(0), Monotonic: passed}
}

// passed is the time since the origin. The caller holds mu.
func (c *jumpingClock) passed() time.Duration { return time.Since(c.origin) + c.skipped }

// NewTimer implements leaderelection.Clock.
func (c *jumpingClock) NewTimer(d time.Duration) clock.Timer {
	fired := make(chan time.Time, 1)
	t := &timer{clock: c, fired: fired}
	t.fire = func(now time.Time) { fired <- now } // Reset has emptied it
	t.Reset(d)
	return t
}

// AfterFunc implements leaderelection.Clock.
func (c *jumpingClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := &timer{clock: c, fire: func(time.Time) { go f() }}
	t.Reset(d)
	return t
}

// jump lets d pass at once.
func (c *jumpingClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipped += max(0, d)
	for _, t := range slices.Clone(c.timers) {
		c.fireIfDue(t)
	}
}

// fireIfDue fires a timer if it is due, or waits until it may be. The caller holds mu.
func (c *jumpingClock) fireIfDue(t *timer) {
	if !slices.Contains(c.timers, t) {
		return
	}
	if left := t.at - c.passed(); left > 0 {
		if t.system != nil {
			t.system.Stop()
		}
		t.system = time.AfterFunc(left, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.fireIfDue(t)
		})
		return
	}
	c.remove(t)
	t.fire(c.origin.Add(c.passed()))
}

// remove reports whether a timer ran. The caller holds mu.
func (c *jumpingClock) remove(t *timer) bool {
	if t.system != nil {
		t.system.Stop()
	}
	i := slices.Index(c.timers, t)
	if i < 0 {
		return false
	}
	c.timers = slices.Delete(c.timers, i, i+1)
	return true
}

// timer is a timer of a jumpingClock, whose lock guards it.
type timer struct {
	clock  *jumpingClock
	fired  chan time.Time // nil for AfterFunc
	fire   func(now time.Time)
	at     time.Duration
	system *time.Timer // nil before the first wait
}

// C implements clock.Timer.
func (t *timer) C() <-chan time.Time { return t.fired }

// Stop implements clock.Timer.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.stop()
}

// Reset implements clock.Timer.
func (t *timer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	ran := t.stop()
	t.at = t.clock.passed() + d
	t.clock.timers = append(t.clock.timers, t)
	t.clock.fireIfDue(t)
	return ran
}

// stop reports whether the timer ran. As of Go 1.23, nothing is received after it. The caller holds
// the clock's lock.
func (t *timer) stop() bool {
	ran := t.clock.remove(t)
	select {
	case <-t.fired:
	default:
	}
	return ran
}
