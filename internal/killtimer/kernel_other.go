//go:build !linux

package killtimer

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

var errUnsupported = fmt.Errorf("killtimer: no such timer on %s: %w", runtime.GOOS, errors.ErrUnsupported)

func create() (int32, error)                   { return 0, errUnsupported }
func settime(int32, time.Duration, bool) error { return errUnsupported }
func remove(int32) error                       { return errUnsupported }
