package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Suspended grows by how long the machine is suspended, give or take what passes between the readings of two clocks. It starts
// anywhere.
func Suspended() time.Duration {
	var monotonic unix.Timespec
	boot := Now() // first: whoever is stopped between the two sees less suspension, and not more
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) != nil {
		return 0
	}
	return boot - time.Duration(monotonic.Nano())
}
