// Package clock is the time of one process: what the lease code reads and waits by, so that a
// simulation can give every process a clock of its own that is offset, runs at another rate, or
// stands still while the process is stopped.
package clock

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/bellwether-k8s/bellwether/internal/process"
)

// Clock reads the time and waits. Timers count as Monotonic of a [Reading] does. A caller holds no
// lock of its own while it calls Now, which in a simulation is where a process may be stopped for
// minutes.
type Clock interface {
	Now() Reading
	NewTimer(d time.Duration) Timer
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is that of [clock.Clock].
type Timer = clock.Timer

// Reading is one look at the clocks of a process.
type Reading struct {
	// Wall is for people and records. It is stepped, by people and by daemons.
	Wall time.Time
	// Monotonic has an arbitrary origin. It is never stepped, but on Linux it stands still while
	// the machine is suspended.
	Monotonic time.Duration
	// Suspended has an arbitrary origin and grows by how long the machine is suspended, where the
	// system tells.
	Suspended time.Duration
}

// suspendNoise is a growth of Suspended that shows no suspension: a thread may be descheduled
// between the two clocks of whose difference it is made.
const suspendNoise = 10 * time.Millisecond

// SinceAtLeast is how much time has surely passed since an earlier reading: what may be counted by
// a process that waits for others.
func (r Reading) SinceAtLeast(earlier Reading) time.Duration {
	return r.Monotonic - earlier.Monotonic
}

// SinceAtMost is how much time may have passed since an earlier reading: what has to be counted by
// a process that others wait for. It is the greatest reading of any of the clocks. A paused virtual
// machine knows only from its wall clock, once that was set.
func (r Reading) SinceAtMost(earlier Reading) time.Duration {
	elapsed := r.Monotonic - earlier.Monotonic
	if suspended := r.Suspended - earlier.Suspended; suspended > suspendNoise {
		elapsed += suspended
	}
	return max(elapsed, r.Wall.Sub(earlier.Wall))
}

// System returns the clock of this process.
func System() Clock { return system{clock.RealClock{}, time.Now()} }

type system struct {
	clock.RealClock
	origin time.Time
}

// Now reads the suspensions first: the reading of a process that is stopped between the two is then
// of before or after the stop.
func (s system) Now() Reading {
	suspended := process.Suspended()
	now := time.Now()
	return Reading{Wall: now.Round(0), Monotonic: now.Sub(s.origin), Suspended: suspended}
}

// WithTimeout returns a context that ends with parent, or after d by c, with a cause that says so.
// It has no deadline that others could read: they would compare it with another clock.
func WithTimeout(parent context.Context, c Clock, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	timer := c.AfterFunc(d, func() { cancel(timeoutError(d)) })
	return ctx, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}

// timeoutError is the cause of a context that has ended after so long.
type timeoutError time.Duration

func (e timeoutError) Error() string {
	if e <= 0 { // a deadline was near
		return "no time was left for an answer"
	}
	return fmt.Sprintf("no answer within %v", time.Duration(e))
}

// Is makes errors.Is(err, context.DeadlineExceeded) true.
func (e timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }
