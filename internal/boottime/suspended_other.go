//go:build !linux

package boottime

import "time"

// Suspended is not known on this system.
func Suspended() time.Duration { return 0 }
