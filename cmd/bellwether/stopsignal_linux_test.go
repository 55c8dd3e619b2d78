package main

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

// stops are signals with which runtimes stop containers, as their images say.
var stops = []syscall.Signal{
	unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGTERM, unix.SIGWINCH, unix.SIGPWR,
	34 + 3,
}

// A candidate has no program that a signal could be for, so each ends it.
func TestStopSignalsEndACandidate(t *testing.T) {
	t.Parallel()
	for _, s := range stops {
		t.Run(fmt.Sprint(int(s)), func(t *testing.T) {
			t.Parallel()
			c := newElection(t).candidate()
			c.Send(s)
			want := "exit status 0"
			if s != unix.SIGTERM && s != unix.SIGINT {
				want = fmt.Sprint("exit status ", 128+int(s))
			}
			assert.NotContains(t, c.Rest(), "started")
			assert.Equal(t, want, c.End())
		})
	}
}

// A leader passes each on to its program.
func TestStopSignalsReachTheProgram(t *testing.T) {
	t.Parallel()
	for _, s := range stops {
		t.Run(fmt.Sprint(int(s)), func(t *testing.T) {
			t.Parallel()
			e := newElection(t)
			c := e.start(fmt.Sprintf(`trap 'echo got it; exit 5' %d; echo works; while :; do sleep 0.1; done`, s))
			await(t, c, "works")
			c.Send(s)
			await(t, c, "got it")
			assert.Equal(t, "exit status 5", c.End())
			assert.Empty(t, e.holder())
		})
	}
}

// With --stop-signal, it is what the program gets whatever the reason.
func TestStopSignalOfTheProgram(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGWINCH} {
		t.Run(fmt.Sprint(int(s)), func(t *testing.T) {
			t.Parallel()
			e := newElection(t)
			c := e.start(`trap '' TERM INT; trap 'echo got it; exit 5' WINCH; echo works; while :; do sleep 0.1; done`,
				"--stop-signal=SIGWINCH")
			await(t, c, "works")
			c.Send(s)
			await(t, c, "got it")
			assert.Equal(t, "exit status 5", c.End())
			assert.Empty(t, e.holder())
		})
	}
	t.Run("a candidate", func(t *testing.T) {
		t.Parallel()
		c := newElection(t).candidate("--stop-signal=winch")
		c.Send(unix.SIGWINCH)
		assert.Equal(t, "exit status 0", c.End())
	})
}

// A hang-up is a wish to read a configuration again, and a candidate reads it when it leads.
func TestHangUpDoesNotEndACandidate(t *testing.T) {
	t.Parallel()
	c := newElection(t).candidate()
	c.Send(unix.SIGHUP)
	c.Send(unix.SIGUSR1)
	assert.Equal(t, "exit status 138", c.End())
}

// The size of a window says nothing to the program.
func TestTerminalResizes(t *testing.T) {
	t.Parallel()
	e := newElection(t)
	keyboard, terminal := subprocess.OpenTerminal(t)
	c := e.bellwether("--", "/bin/sh", "-c",
		`trap 'echo resized' WINCH; trap 'echo last; exit 0' USR1; echo works; while :; do sleep 0.1; done`)
	c.SysProcAttr.Setctty, c.Stdin = true, terminal
	c.Start()
	await(t, c, "works")
	size := &unix.Winsize{Row: 10, Col: 10}
	require.NoError(t, unix.IoctlSetWinsize(int(keyboard.Fd()), unix.TIOCSWINSZ, size))
	c.Send(unix.SIGUSR1)
	assert.NotContains(t, await(t, c, "last"), "resized")
	assert.Equal(t, "exit status 0", c.End())
}

func TestNamesOfSignals(t *testing.T) {
	for name, number := range map[string]int{
		"SIGQUIT": 3, "quit": 3, "3": 3, "WINCH": 28, "SIGRTMIN+3": 37, "rtmin": 34, "RTMAX-14": 50, "37": 37,
		"SIGPWR": 30,
	} {
		s, err := signalOf(name)
		require.NoError(t, err)
		assert.Equal(t, number, int(s), name)
	}
	for _, name := range []string{"KILL", "SIGSTOP", "RTMIN3", "RTMAX+1", "17", "", "SIG", "no such"} {
		_, err := signalOf(name)
		assert.ErrorContains(t, err, "must be", name)
	}
}
