package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// command is a program to run in a directory.
type command struct {
	dir string
	env []string // added to this process'
}

// run returns what the program prints. Its error is one line.
func (c command) run(ctx context.Context, name string, args ...string) (string, error) {
	var out, failed strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		said := oneLine(failed.String() + out.String())
		return "", fmt.Errorf("%s %s: %s (%w)", name, strings.Join(args, " "), said, err)
	}
	return strings.TrimSpace(out.String()), nil
}

// oneLine leaves out progress.
func oneLine(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "go: downloading ") && !strings.HasPrefix(line, "go: added ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, " ")
}
