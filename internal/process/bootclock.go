package process

import "time"

// SinceBoot reads the boot clock. On Linux it is CLOCK_BOOTTIME, which also counts while the
// machine is suspended. The monotonic clock behind time.Now stands still then, so a holder would
// believe in a lease that others have seen expire.
//
// Only differences between readings in one process are meaningful. Other systems use the runtime's
// monotonic clock. If a hypervisor pauses a virtual machine, no clock in it counts. Even in
// testing/synctest bubbles the clock is real, so code that runs in one takes a clock as a value.
func SinceBoot() time.Duration { return sinceBoot() }

var start = time.Now()

func monotonic() time.Duration { return time.Since(start) }
