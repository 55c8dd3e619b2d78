package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended is by how much the clock that counts suspensions is ahead of the one that does not. A kernel without either never
// says that there was one.
func suspended() time.Duration {
	var boot, monotonic unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - monotonic.Nano())
}
