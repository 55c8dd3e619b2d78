package sim

import (
	"math"
	"sync"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Clock is the time of one process, with its own offset and rate, and stands still while the
// process does. It implements [clock.Clock].
type Clock struct {
	rate float64 // of its seconds per true second

	mu        sync.Mutex
	since     time.Time     // of the last change of how the clock runs
	base      clock.Reading // its reading then
	pause     Pause
	resumed   chan struct{} // closed at the end of the pause; nil while there is none
	countdown int           // readings until onCountdown; zero if none is due
	onZero    func()
	timers    map[*timer]struct{} // those that are armed
}

// Pause is a way for a process to stand still. Its timers never fire meanwhile.
type Pause int

// The pauses.
const (
	// Stop is SIGSTOP, or starvation: all clocks continue.
	Stop Pause = iota
	// Suspend is that of the machine: the monotonic clock stands still.
	Suspend
	// Freeze is that of a virtual machine: only the wall clock is right afterwards.
	Freeze
)

func newClock(offset time.Duration, rate float64) *Clock {
	now := time.Now()
	return &Clock{
		rate: rate, since: now, base: clock.Reading{Wall: now.Round(0).Add(offset)}, timers: map[*timer]struct{}{},
	}
}

// Now implements [clock.Clock]. If its process is paused or about to be, Now returns after the pause with
// the time from before it, because the worst moment for a pause is just after a look at the clock.
func (c *Clock) Now() clock.Reading {
	c.mu.Lock()
	now := c.read()
	onZero := func() {}
	if c.countdown > 0 {
		if c.countdown--; c.countdown == 0 {
			onZero = c.onZero
		}
	}
	c.mu.Unlock()
	onZero()
	c.awaitResume()
	return now
}

func (c *Clock) awaitResume() {
	c.mu.Lock()
	resumed := c.resumed
	c.mu.Unlock()
	if resumed != nil {
		<-resumed
	}
}

// afterReadings calls f in the nth call of Now from here.
func (c *Clock) afterReadings(n int, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.countdown, c.onZero = n, f
}

// step sets the wall clock forward or back.
func (c *Clock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rebase()
	c.base.Wall = c.base.Wall.Add(d)
}

// read returns the clock's time. The caller holds mu.
func (c *Clock) read() clock.Reading {
	now, passed := c.base, time.Duration(float64(time.Since(c.since))*c.rate)
	now.Wall = now.Wall.Add(passed)
	switch {
	case c.resumed == nil || c.pause == Stop:
		now.Monotonic += passed
	case c.pause == Suspend:
		now.Suspended += passed
	}
	return now
}

// rebase has to be called before changing how the clock runs. The caller holds mu.
func (c *Clock) rebase() { c.base, c.since = c.read(), time.Now() }

// stop makes the process stand still, if it does not already.
func (c *Clock) stop(how Pause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resumed != nil {
		return
	}
	c.rebase()
	c.pause, c.resumed = how, make(chan struct{})
	for t := range c.timers {
		t.alarm.Stop()
	}
}

// resume ends the pause. Timers that are overdue fire.
func (c *Clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resumed == nil {
		return
	}
	c.rebase()
	close(c.resumed)
	c.resumed = nil
	for t := range c.timers {
		t.arm()
	}
}

// timer is one of a [Clock].
type timer struct {
	clock *Clock
	due   time.Duration // on the monotonic clock
	alarm *time.Timer
	f     func()         // nil for NewTimer
	c     chan time.Time // capacity 1; nil for AfterFunc
}

// NewTimer implements [clock.Clock].
func (c *Clock) NewTimer(d time.Duration) clock.Timer {
	t := &timer{clock: c, c: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

// AfterFunc implements [clock.Clock].
func (c *Clock) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := &timer{clock: c, f: f}
	t.Reset(d)
	return t
}

// C implements [clock.Timer].
func (t *timer) C() <-chan time.Time { return t.c }

// Reset implements [clock.Timer].
func (t *timer) Reset(d time.Duration) bool {
	active := t.Stop()
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.due = t.clock.read().Monotonic + d
	t.clock.timers[t] = struct{}{}
	if t.clock.resumed == nil {
		t.arm()
	}
	return active
}

// Stop implements [clock.Timer]. Nothing is received from C after it has returned.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	_, active := t.clock.timers[t]
	delete(t.clock.timers, t)
	if t.alarm != nil {
		t.alarm.Stop()
	}
	select {
	case <-t.c:
	default:
	}
	return active
}

// arm sets the alarm. The caller holds the clock's mutex.
func (t *timer) arm() {
	left := float64(t.due-t.clock.read().Monotonic) / t.clock.rate
	t.alarm = time.AfterFunc(time.Duration(math.Ceil(left)), t.fire)
}

func (t *timer) fire() {
	t.clock.mu.Lock()
	_, armed := t.clock.timers[t]
	if !armed || t.clock.resumed != nil { // stopped, or the process is, in this instant
		t.clock.mu.Unlock()
		return
	}
	now := t.clock.read()
	if t.due > now.Monotonic { // by rounding, or by a reset in this instant
		t.alarm.Stop()
		t.arm()
		t.clock.mu.Unlock()
		return
	}
	delete(t.clock.timers, t)
	if t.f == nil {
		t.c <- now.Wall // Stop and Reset have emptied it
	}
	t.clock.mu.Unlock()
	if t.f != nil {
		t.f()
	}
}
