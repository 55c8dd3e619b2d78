//go:build !linux

package sole

import "errors"

// Occupy is for Linux only.
func Occupy(string) (release func(), err error) { return nil, errors.ErrUnsupported }
