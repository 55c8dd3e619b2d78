package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is chosen once, so that readings of two clocks are never mixed. It falls back to the
// monotonic clock on 32-bit kernels without the old system calls and in sandboxes. Kill timers do
// not work there and return an error.
var sinceBoot = func() func() time.Duration {
	if _, err := readBootClock(); err != nil {
		return monotonic
	}
	return func() time.Duration {
		d, err := readBootClock()
		if err != nil { // forbidden since the start, and a wrong time could keep a lease forever
			panic("process: read CLOCK_BOOTTIME: " + err.Error())
		}
		return d
	}
}()

func readBootClock() (time.Duration, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano()), err
}

// Suspended grows by the time for which the machine is suspended, plus or minus the time between
// the readings of two clocks. Its origin is arbitrary.
func Suspended() time.Duration {
	var monotonic unix.Timespec
	boot := SinceBoot() // first: a process stopped between the two readings sees less suspension, not more
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) != nil {
		return 0
	}
	return boot - time.Duration(monotonic.Nano())
}
