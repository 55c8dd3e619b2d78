package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	// orphanerEnv makes the test binary a process that starts a group and ends in the way it names.
	orphanerEnv = "BELLWETHER_E2E_ORPHANER"

	orphanPatience = patience // which is less than an orphaner waits for its end
	orphanPoll     = 20 * time.Millisecond
)

// orphaner prints the IDs of the processes it has started, one of them stopped, and then ends or
// waits for its end.
func orphaner(how string) {
	dir, err := os.MkdirTemp("", "orphaner-")
	if err != nil {
		panic(err)
	}
	group, err := e2e.NewGroup(dir)
	if err != nil {
		panic(err)
	}
	var pids []string
	for _, command := range []e2e.Command{
		{Name: "sleeping", Path: "sleep", Args: []string{"600"}},
		{Name: "stopped", Path: "sleep", Args: []string{"600"}},
		{Name: "deaf", Path: "sh", Args: []string{"-c", "trap '' INT TERM HUP; sleep 600; sleep 600"}},
	} {
		process, err := group.Start(command)
		if err != nil {
			panic(err)
		}
		pids = append(pids, strconv.Itoa(process.Pid()))
		if command.Name == "stopped" {
			if err := process.Pause(); err != nil {
				panic(err)
			}
		}
	}
	_ = os.RemoveAll(dir)
	signal.Reset()
	fmt.Println(strings.Join(pids, " "))
	switch how {
	case "return":
		os.Exit(0)
	case "panic":
		panic("as asked")
	default:
		<-time.After(time.Minute)
	}
}

func TestNothingOutlivesTheHarness(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(*os.Process) error{
		"return":  func(*os.Process) error { return nil },
		"panic":   func(*os.Process) error { return nil },
		"SIGKILL": (*os.Process).Kill,
		"SIGINT":  func(p *os.Process) error { return p.Signal(os.Interrupt) },
		"SIGTERM": func(p *os.Process) error { return p.Signal(syscall.SIGTERM) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), orphanPatience)
			defer cancel()
			harness := exec.CommandContext(ctx, os.Args[0])
			harness.Env = append(os.Environ(), orphanerEnv+"="+how)
			stdout, err := harness.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, harness.Start())
			line, err := bufio.NewReader(stdout).ReadString('\n')
			require.NoError(t, err)
			pids := strings.Fields(line)
			require.Len(t, pids, 3)

			require.NoError(t, end(harness.Process))
			_ = harness.Wait() // most ways to end are errors
			require.NoError(t, ctx.Err(), "the harness itself did not end")
			for _, field := range pids {
				pid, err := strconv.Atoi(field)
				require.NoError(t, err)
				assert.Eventually(t, func() bool { return gone(pid) }, orphanPatience, orphanPoll,
					"process %d lives on", pid)
			}
		})
	}
}

func TestClosedGroupStartsNothing(t *testing.T) {
	t.Parallel()
	group, err := e2e.NewGroup(t.TempDir())
	require.NoError(t, err)
	process, err := group.Start(e2e.Command{Name: "sleep", Path: "sleep", Args: []string{"600"}})
	require.NoError(t, err)
	require.NoError(t, group.Close())

	assert.Equal(t, syscall.SIGKILL, end(t, process).Signal)
	assert.Error(t, process.Restart())
	_, err = group.Start(e2e.Command{Name: "late", Path: "sleep", Args: []string{"600"}})
	assert.Error(t, err)
	assert.NoError(t, group.Close(), "a second Close does nothing")
}

func TestGroupKillsGrandchildren(t *testing.T) {
	t.Parallel()
	group, err := e2e.NewGroup(t.TempDir())
	require.NoError(t, err)
	grandchild := make(chan int, 1)
	_, err = group.Start(e2e.Command{
		Name: "parent", Path: "sh", Args: []string{"-c", "sleep 600 & echo $!; wait"},
		OnLine: func(line string) {
			pid, err := strconv.Atoi(line)
			assert.NoError(t, err)
			grandchild <- pid
		},
	})
	require.NoError(t, err)
	var pid int
	select {
	case pid = <-grandchild:
	case <-time.After(orphanPatience):
		require.Fail(t, "there is no grandchild")
	}
	require.False(t, gone(pid))
	require.NoError(t, group.Close())
	assert.Eventually(t, func() bool { return gone(pid) }, orphanPatience, orphanPoll)
}

// gone says whether a process has ended. A zombie has: if orphans are not reaped, they stay in the
// process table.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false // no /proc here, or gone a moment later: the next poll will tell
	}
	_, after, found := strings.Cut(string(status), ") ")
	return found && strings.HasPrefix(after, "Z")
}
