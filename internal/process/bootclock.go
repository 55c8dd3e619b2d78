package process

import "time"

// SinceBoot reads the boot clock. On Linux it is CLOCK_BOOTTIME, which also counts while the
// machine is suspended. The monotonic clock behind time.Now stands still then, so a holder would
// believe in a lease that others have seen expire.
//
// Only differences between readings in one process are meaningful. Other systems use the runtime's
// monotonic clock. If a hypervisor pauses a virtual machine, no clock in it counts. The clock is
// real in testing/synctest bubbles too: code that runs in a bubble takes a clock as a value.
func SinceBoot() time.Duration { return sinceBoot() }

var start = time.Now()

func monotonic() time.Duration { return time.Since(start) }
