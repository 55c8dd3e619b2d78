package fenceagents

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

// stopped is the context of a process that is stopped after it has first looked at it, for longer
// than there was time.
type stopped struct {
	context.Context //nolint:containedctx // it is one
	mu              sync.Mutex
	looks           int
	end             context.CancelFunc
}

func (s *stopped) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looks++; s.looks == 2 {
		s.end()
	}
	return s.Context.Err()
}

func TestNothingIsHandedOverTooLate(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path, got := filepath.Join(directory, "fence_fake"), filepath.Join(directory, "got")
	subprocess.WriteProgram(t, path, "#!/bin/sh\ninput=$(cat)\necho \"$input\" > \"${0%/*}/got\"\n")
	program := program{path: path, environment: []string{"PATH=" + defaultPath}, patience: patience}

	_, err := program.run(t.Context(), []byte("action=off\n"))
	require.NoError(t, err)
	require.FileExists(t, got)
	require.NoError(t, os.Remove(got))

	ctx, end := context.WithCancel(t.Context())
	_, err = program.run(&stopped{Context: ctx, end: end}, []byte("action=off\n"))
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, "killed")
	assert.NoFileExists(t, got, "neither with the input nor without it")
}

// A process is not overlooked while it executes another program.
func TestProcessThatExecutesAProgramIsSeen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "again")
	subprocess.WriteProgram(t, path, "#!/bin/sh\nexec \"$0\"\n")
	const marker = markerKey + "=x"
	again := exec.Command(path)
	again.Env = []string{marker}
	again.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, again.Start())
	defer func() {
		_ = again.Process.Kill()
		_ = again.Wait()
	}()
	f := family{marker: []byte(marker)}
	seen := 0
	for range 20_000 {
		now, ok := look(again.Process.Pid)
		require.True(t, ok)
		member, whole := f.has(again.Process.Pid, now)
		require.True(t, member || !whole)
		if member {
			seen++
		}
	}
	assert.NotZero(t, seen)
	self, ok := look(os.Getpid())
	require.True(t, ok)
	member, whole := f.has(os.Getpid(), self)
	assert.False(t, member)
	assert.True(t, whole, "it executes nothing")
}

// woken is the context of a process that was stopped as the program ended, for longer than there
// was time.
type woken struct {
	context.Context //nolint:containedctx // it is one
	ended           string
}

func (w woken) Err() error {
	if _, err := os.Stat(w.ended); err == nil {
		return context.DeadlineExceeded
	}
	return nil
}

func TestWhatWasSaidInTimeAndHeardTooLateDoesNotCount(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path, ended := filepath.Join(directory, "fence_fake"), filepath.Join(directory, "ended")
	subprocess.WriteProgram(t, path, "#!/bin/sh\ncat > /dev/null\n: > \"${0%/*}/ended\"\n")
	program := program{path: path, environment: []string{"PATH=" + defaultPath}, patience: patience}
	_, err := program.run(woken{t.Context(), ended}, []byte("action=status\n"))
	assert.ErrorContains(t, err, "killed")
}

// A program that was started before does nothing until it has its input, and nothing at all without it.
func TestStartedProgramWaitsForItsInput(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path, begun, got := filepath.Join(directory, "fence_fake"), filepath.Join(directory, "begun"),
		filepath.Join(directory, "got")
	subprocess.WriteProgram(t, path,
		"#!/bin/sh\necho $$ > \"${0%/*}/begun\"\ninput=$(cat)\necho \"$input\" > \"${0%/*}/got\"\n")
	program := program{path: path, environment: []string{"PATH=" + defaultPath}, patience: patience}
	begins := func() (pid int) {
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(begun)
			pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			return err == nil && pid > 0
		}, time.Minute, time.Millisecond)
		require.NoError(t, os.Remove(begun))
		return pid
	}

	run := program.start(t.Context())
	begins()
	require.NoFileExists(t, got)
	_, err := run.run(t.Context(), []byte("action=status\n"))
	require.NoError(t, err)
	require.FileExists(t, got)
	require.NoError(t, os.Remove(got))

	ctx, cancel := context.WithCancel(t.Context())
	run = program.start(ctx)
	pid := begins()
	cancel()
	_, err = run.run(ctx, []byte("action=status\n"))
	assert.ErrorContains(t, err, "killed")
	assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	assert.NoFileExists(t, got)
}
