package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ownWorkspace has a go command use the go.work of the directory that it runs in, whatever that of this
// process is.
var ownWorkspace = []string{"GOWORK=", "GOFLAGS="}

// Race returns the flags of `go build` for programs of a test: with the race detector, if the test has it.
func Race() []string {
	if raced {
		return []string{"-race"}
	}
	return nil
}

// Program builds the main package pkg, as seen from the current directory, into the control plane's
// directory and returns the path of the program. Flags are flags of `go build`, for example -race.
// Asked for the same package and flags again it returns the first result.
func (c *ControlPlane) Program(ctx context.Context, pkg string, flags ...string) (string, error) {
	return c.ProgramOf(ctx, "", pkg, flags...)
}

// ProgramOf is [ControlPlane.Program] for a package of another module, as seen from its directory.
// Empty: of the current one.
func (c *ControlPlane) ProgramOf(ctx context.Context, module, pkg string, flags ...string) (string, error) {
	c.programsMu.Lock()
	defer c.programsMu.Unlock()
	key := fmt.Sprintf("%q %q %q", module, pkg, flags)
	if path, ok := c.programs[key]; ok {
		return path, nil
	}
	dir, err := os.MkdirTemp(c.Dir, "program-")
	if err != nil {
		return "", fmt.Errorf("e2e: build %s: %w", pkg, err)
	}
	arguments := slices.Concat([]string{"build", "-ldflags=-s -w"}, flags, []string{"-o", dir + "/", pkg})
	var environment []string
	if module != "" {
		environment = ownWorkspace
	}
	if _, err := goCommand(ctx, module, environment, arguments...); err != nil {
		return "", fmt.Errorf("e2e: build %s: %w", pkg, err)
	}
	built, err := os.ReadDir(dir)
	if err != nil || len(built) != 1 {
		return "", fmt.Errorf("e2e: build %s: want one program, got %d: %w", pkg, len(built), err)
	}
	c.programs[key] = filepath.Join(dir, built[0].Name())
	return c.programs[key], nil
}

// Download downloads the modules that programs of a module are built from. Empty: of the current one.
func Download(ctx context.Context, module string) error {
	if _, err := goCommand(ctx, module, ownWorkspace, "list", "all"); err != nil {
		return fmt.Errorf("e2e: download modules: %w", err)
	}
	return nil
}

// goCommand runs go in dir ("" is the current directory) and returns its standard output without
// surrounding space.
func goCommand(ctx context.Context, dir string, env []string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = dir
	command.Env = append(os.Environ(), env...)
	// An interrupted go command ends its compilers; a killed one would leave them running.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", arguments[0], errors.Join(err, ctx.Err()),
			bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
