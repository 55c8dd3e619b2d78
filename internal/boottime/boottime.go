// Package boottime is a clock that does not stand still while the machine is suspended, as the monotonic clock behind
// time.Now does on Linux: a holder that is suspended and resumed would otherwise believe in a lease that others have
// long seen expire.
//
// On systems other than Linux it is the monotonic clock of the runtime, whatever that counts there. A virtual machine
// that its hypervisor pauses is not suspended: no clock in it notices. The clock is real inside testing/synctest
// bubbles too, so code that is to run in one takes a clock as a value.
package boottime

import "time"

// Now reads the clock. Only differences of readings mean anything, and only in one process.
func Now() time.Duration { return now() }

var start = time.Now()

func monotonic() time.Duration { return time.Since(start) }
