//go:build !linux

package fenceagents

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const markerKey = "BELLWETHER_FENCE_CALL"

type program struct {
	path        string
	environment []string
	patience    time.Duration
}

// start returns the program itself, which cannot be started.
func (p program) start(context.Context) program { return p }

func (p program) run(context.Context, []byte) (outcome, error) {
	return outcome{}, fmt.Errorf("run %s: fence agents are for Linux: %w", p.path, errors.ErrUnsupported)
}
