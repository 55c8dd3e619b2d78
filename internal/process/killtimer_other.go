//go:build !linux

package process

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

var errUnsupported = fmt.Errorf("kill timer: not available on %s: %w", runtime.GOOS, errors.ErrUnsupported)

func createTimer() (int32, error)               { return 0, errUnsupported }
func setTimer(int32, time.Duration, bool) error { return errUnsupported }
func deleteTimer(int32) error                   { return errUnsupported }
