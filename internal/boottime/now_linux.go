package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is chosen once, so that readings of two clocks never mix. The monotonic one is for 32-bit kernels without the old
// system calls, and for sandboxes: killtimer does not work there and says so.
var now = func() func() time.Duration {
	if _, err := boot(); err != nil {
		return monotonic
	}
	return func() time.Duration {
		d, err := boot()
		if err != nil { // forbidden since: a made-up time could keep a lease for ever
			panic("boottime: reading CLOCK_BOOTTIME: " + err.Error())
		}
		return d
	}
}()

func boot() (time.Duration, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano()), err
}
