//go:build !linux

package process

import "errors"

// Lock is supported on Linux only.
func Lock(string) (release func(), err error) { return nil, errors.ErrUnsupported }
