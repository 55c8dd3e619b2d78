package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

// worker is a script that takes a while to end after SIGTERM.
const worker = `trap 'sleep 1; echo the worker has ended; exit' TERM; echo works; while :; do sleep 0.1; done`

// The grace is for all processes of the program, also those that outlive the shell around them.
func TestGraceIsForAllProcesses(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"a shell around it":    `sh -c "$WORKER"; echo`,
		"two shells":           `sh -c 'sh -c "$WORKER"; echo'; echo`,
		"a pipe":               `sh -c "$WORKER" | cat`,
		"in another session":   `setsid -w sh -c "$WORKER"; echo`,
		"a pipe of a subshell": `(sh -c "$WORKER"; echo) | cat | cat`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newElection(t)
			c := e.bellwether("--", "/bin/sh", "-c", script)
			c.Env = append(c.Env, "WORKER="+worker)
			c.Start()
			await(t, c, "works")
			c.Send(unix.SIGTERM)
			await(t, c, "the worker has ended")
			assert.NotContains(t, c.Rest(), "killed")
			assert.Equal(t, "exit status 143", c.End(), "that of the shell")
			assert.Empty(t, e.holder())
		})
	}
}

// But it ends.
func TestGraceOfWhatIsLeftEnds(t *testing.T) {
	t.Parallel()
	e := newElection(t)
	c := e.start(`sh -c 'trap "" TERM; echo works; while :; do sleep 0.1; done'; echo`, "--grace=200ms")
	await(t, c, "works")
	c.Send(unix.SIGTERM)
	await(t, c, "processes were killed")
	assert.Equal(t, "exit status 143", c.End())
	assert.Empty(t, e.holder())
}

// A supervisor of the program's own passes SIGTERM on: its child gets it once.
func TestSIGTERMComesOnce(t *testing.T) {
	t.Parallel()
	e := newElection(t)
	c := e.bellwether("--", "/bin/sh", "-c", `trap 'sleep 0.3; kill -TERM $worker' TERM
		sh -c 'trap "echo SIGTERM; ends=yes" TERM; : >"$0"; until [ $ends ]; do sleep 0.1; done; sleep 1' "$READY" &
		worker=$!
		until [ -e "$READY" ]; do sleep 0.1; done
		echo works
		wait; wait $worker`)
	c.Env = append(c.Env, "READY="+filepath.Join(t.TempDir(), "ready"))
	c.Start()
	await(t, c, "works")
	c.Send(unix.SIGTERM)
	said := c.Rest()
	assert.Equal(t, 1, strings.Count(said, "SIGTERM\n"), said)
	assert.Equal(t, "exit status 0", c.End())
}

// A program that uses the terminal is not stopped by it.
func TestProgramMayUseTheTerminal(t *testing.T) {
	t.Parallel()
	for _, of := range []struct{ name, script, said string }{
		{"redirected input", `stty sane < /dev/tty; echo went on`, "went on"},
		{"input", `read line; echo "got $line"`, "got typed"},
		{"its settings", `stty echo; echo went on`, "went on"},
	} {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			e := newElection(t)
			keyboard, terminal := subprocess.OpenTerminal(t)
			c := e.bellwether("--", "/bin/sh", "-c", of.script)
			c.SysProcAttr.Setctty = true
			c.Stdin = terminal
			c.Start()
			_, err := keyboard.WriteString("typed\n")
			require.NoError(t, err)
			await(t, c, of.said)
			assert.Equal(t, "exit status 0", c.End())
		})
	}
}

// The health command is bellwether's: that it runs when the program ends kills no process of the program.
func TestHealthCommandIsNotOfTheProgram(t *testing.T) {
	t.Parallel()
	e := newElection(t)
	checked := filepath.Join(e.dir, "checked")
	c := e.start(`while [ ! -e '`+checked+`' ]; do sleep 0.1; done`,
		"--health-command", `touch '`+checked+`'; sh -c 'sleep 60; :'`)
	said := c.Rest()
	assert.Contains(t, said, "the program has ended")
	assert.NotContains(t, said, "killed")
	assert.Equal(t, "exit status 0", c.End())
	assert.Empty(t, e.holder())
}

// A process that cannot be killed keeps the Lease, and it is said.
func TestLeaseIsHeldWhileAProcessIsLeft(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: needs root, for a process that its user cannot kill")
	}
	e := newElection(t)
	require.NoError(t, os.Chmod(filepath.Dir(e.dir), 0o755))
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	bellwether, program := filepath.Join(e.dir, "bellwether"), filepath.Join(e.dir, "program")
	for _, file := range []string{bellwether, program} {
		subprocess.WriteProgram(t, file, string(self))
		require.NoError(t, os.Chmod(file, 0o755))
	}
	require.NoError(t, os.Chmod(program, 0o755|os.ModeSetuid))
	c := e.bellwether("--grace=0s", "--", program, "unkillable")
	c.Path, c.SysProcAttr.Credential = bellwether, &syscall.Credential{Uid: 65534, Gid: 65534}
	c.Start()
	var pid int
	_, err = fmt.Sscanf(strings.TrimSpace(lastLine(await(t, c, "unkillable "))), "unkillable %d", &pid)
	require.NoError(t, err)
	c.Send(unix.SIGTERM)
	await(t, c, "cannot be killed")
	await(t, c, "cannot be killed")
	assert.NotEmpty(t, e.holder())
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	assert.Equal(t, "exit status 137", c.End())
	assert.Empty(t, e.holder())
}

func lastLine(lines string) string {
	all := strings.Split(strings.TrimSpace(lines), "\n")
	return all[len(all)-1]
}
