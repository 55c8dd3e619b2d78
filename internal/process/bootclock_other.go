//go:build !linux

package process

import "time"

func sinceBoot() time.Duration { return monotonic() }

// Suspended returns 0: this system does not report suspensions.
func Suspended() time.Duration { return 0 }
