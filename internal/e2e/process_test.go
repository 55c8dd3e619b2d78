package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// transcript collects the lines of a process.
type transcript struct {
	mu    sync.Mutex
	lines []string
}

func (c *transcript) add(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
}

func (c *transcript) read() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.lines...)
}

func startShell(t *testing.T, script string, onLine func(string)) *e2e.Process {
	t.Helper()
	group, err := e2e.NewGroup(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, group.Close()) })
	process, err := group.Start(e2e.Command{
		Name: "shell", Path: "sh", Args: []string{"-c", script},
		Env: []string{"COLOUR=blue"}, OnLine: onLine,
	})
	require.NoError(t, err)
	return process
}

// end waits for the end of a process.
func end(t *testing.T, p *e2e.Process) e2e.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(t, err)
	return exit
}

func TestExitDistinguishesCodeAndSignal(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]e2e.Exit{
		"exit 0":        {Code: 0},
		"exit 75":       {Code: 75},
		"exit 137":      {Code: 137}, // what a shell reports for SIGKILL
		"kill -KILL $$": {Code: -1, Signal: syscall.SIGKILL},
		"kill -TERM $$": {Code: -1, Signal: syscall.SIGTERM},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			before := time.Now()
			exit := end(t, startShell(t, script, nil))
			assert.WithinRange(t, exit.At, before, time.Now())
			exit.At = time.Time{}
			assert.Equal(t, want, exit)
		})
	}
}

func TestOutputIsReadAsItComesAndLogged(t *testing.T) {
	t.Parallel()
	first := make(chan string, 1)
	var all transcript
	process := startShell(t, `echo "$COLOUR"; sleep 600 & printf rest; echo oops >&2; wait`, func(line string) {
		all.add(line)
		select {
		case first <- line:
		default:
		}
	})
	assert.Equal(t, "blue", <-first, "while the process runs")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		log, err := os.ReadFile(process.Log())
		require.NoError(c, err)
		assert.Contains(c, string(log), "blue\n")
		assert.Contains(c, string(log), "oops\n")
	}, patience, poll)
	require.NoError(t, process.Kill(), "with a child that holds standard output open")
	assert.Equal(t, []string{"blue", "rest"}, all.read(), "the unfinished line comes at the end")
	assert.Equal(t, "shell.log", filepath.Base(process.Log()))
}

func TestWaitReturnsAfterAllOutput(t *testing.T) {
	t.Parallel()
	var all transcript
	process := startShell(t, `i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo $i; done`, all.add)
	end(t, process)
	assert.Len(t, all.read(), 5000)
}

func TestPauseResumeTerminateKillRestart(t *testing.T) {
	t.Parallel()
	var ticks transcript
	process := startShell(t, `trap 'echo bye; exit 7' TERM; while :; do echo tick; sleep 0.02; done`, ticks.add)
	ticking := func() bool {
		before := len(ticks.read())
		return assert.Eventually(t, func() bool { return len(ticks.read()) > before }, patience, poll)
	}
	require.True(t, ticking())

	require.NoError(t, process.Pause())
	quiet := func() bool { // for 10 times what a tick takes
		before := len(ticks.read())
		err := wait.PollUntilContextTimeout(t.Context(), poll, 200*time.Millisecond, true,
			func(context.Context) (bool, error) {
				return len(ticks.read()) > before, nil
			})
		return wait.Interrupted(err)
	}
	require.Eventually(t, quiet, patience, poll)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := process.Wait(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "paused is not ended")
	require.NoError(t, process.Resume())
	require.True(t, ticking())

	require.NoError(t, process.Terminate())
	exit := end(t, process)
	assert.Equal(t, 7, exit.Code)
	assert.Equal(t, "exit code 7", exit.String())
	assert.Equal(t, "bye", ticks.read()[len(ticks.read())-1])
	require.ErrorIs(t, process.Pause(), os.ErrProcessDone)
	require.NoError(t, process.Kill(), "killing the dead is no error")

	pid := process.Pid()
	require.NoError(t, process.Restart())
	assert.NotEqual(t, pid, process.Pid())
	require.True(t, ticking())
	require.NoError(t, process.Pause())
	require.NoError(t, process.Restart(), "of a paused process")
	require.True(t, ticking())
	require.NoError(t, process.Kill())
	exit = end(t, process)
	assert.Equal(t, "signal: killed", exit.String())
}

func TestMissingCommand(t *testing.T) {
	t.Parallel()
	group, err := e2e.NewGroup(t.TempDir())
	require.NoError(t, err)
	defer group.Close()
	_, err = group.Start(e2e.Command{Name: "ghost", Path: "/nonexistent/ghost", OnLine: func(string) {}})
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "start ghost")
}
