package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// command is a program to run in a directory.
type command struct {
	dir string
	env []string // added to this process's
}

// run returns the program's output. Its error is one line.
func (c command) run(ctx context.Context, name string, args ...string) (string, error) {
	var out, failed strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = c.dir, append(slices.DeleteFunc(os.Environ(), isOfRepository), c.env...)
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		said := oneLine(failed.String() + out.String())
		return "", fmt.Errorf("%s %s: %s (%w)", name, strings.Join(args, " "), said, err)
	}
	return strings.TrimSpace(out.String()), nil
}

// isOfRepository reports whether a variable names the repository of a git command that has started this
// process as a hook, instead of the directory's.
func isOfRepository(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	switch name {
	case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX":
		return true
	}
	return false
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
