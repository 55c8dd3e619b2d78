//go:build !linux

package shardlease

import "errors"

func occupy(string) (release func(), err error) { return nil, errors.ErrUnsupported }
