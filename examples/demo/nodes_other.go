//go:build !linux

package main

import (
	"context"
	"errors"
)

func playedInside(context.Context, *report) (played bool, err error) { return false, nil }

func playNodes(context.Context, *stage) error { return errors.ErrUnsupported }
