// Package clock is the time of one process, by which the lease code reads and waits, so that a
// simulation can give every process its own clock that is offset, runs at another rate, or stands
// still while the process is stopped.
package clock

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/bellwether-k8s/bellwether/internal/process"
)

// Clock reads the time and waits. Timers count as Monotonic of a [Reading] does. A caller must hold
// no lock while it calls Now, where a simulation may stop a process for minutes.
type Clock interface {
	Now() Reading
	NewTimer(d time.Duration) Timer
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is that of [clock.Clock].
type Timer = clock.Timer

// Reading is one look at the clocks of a process.
type Reading struct {
	// Wall is for people and records. People and daemons may step it.
	Wall time.Time
	// Monotonic has an arbitrary origin. It is never stepped, but on Linux it stands still while
	// the machine is suspended.
	Monotonic time.Duration
	// Suspended has an arbitrary origin and grows by how long the machine is suspended, where the
	// system reports that.
	Suspended time.Duration
}

// suspendNoise is a growth of Suspended that shows no suspension, because a thread may be
// descheduled between reading the two clocks whose difference it is.
const suspendNoise = 10 * time.Millisecond

// SinceAtLeast returns how much time has surely passed since an earlier reading. A process that
// waits for others may count it.
func (r Reading) SinceAtLeast(earlier Reading) time.Duration {
	return r.Monotonic - earlier.Monotonic
}

// SinceAtMost returns how much time may have passed since an earlier reading. A process that others
// wait for has to count it. It is the greatest difference of any clock, because only the wall clock
// of a paused virtual machine shows the pause, once it was set.
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

// Now reads the suspensions first, so that the reading of a process that is stopped between the two
// is from before or after the stop.
func (s system) Now() Reading {
	suspended := process.Suspended()
	now := time.Now()
	return Reading{Wall: now.Round(0), Monotonic: now.Sub(s.origin), Suspended: suspended}
}

// WithTimeout returns a context that ends with parent, or after d by c, with a cause that states this.
// It has no deadline that others could read, because they would compare it with another clock.
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

// Sleep waits for d in real time. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool { return SleepBy(ctx, clock.RealClock{}, d) }

// SleepBy is Sleep by the time of c.
func SleepBy(ctx context.Context, c interface{ NewTimer(time.Duration) Timer }, d time.Duration) bool {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}
