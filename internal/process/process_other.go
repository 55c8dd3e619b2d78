//go:build !linux

package process

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

func sinceBoot() time.Duration { return monotonic() }

// Suspended returns 0: this system does not report suspensions.
func Suspended() time.Duration { return 0 }

var errUnsupported = fmt.Errorf("kill timer: not available on %s: %w", runtime.GOOS, errors.ErrUnsupported)

func createTimer() (int32, error)               { return 0, errUnsupported }
func setTimer(int32, time.Duration, bool) error { return errUnsupported }
func deleteTimer(int32) error                   { return errUnsupported }

// Lock is supported on Linux only.
func Lock(string) (release func(), err error) { return nil, errors.ErrUnsupported }

// ReexecIfPID1 does nothing: only Linux has pid namespaces.
func ReexecIfPID1() {}

// Children returns nothing: on this system no process is supervised.
func Children(int) []int { return nil }
