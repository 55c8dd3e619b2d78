package subprocess

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Stop sends SIGSTOP to a process and waits until all of its threads have stopped: until then they
// may still send a request, or read an answer. It fails the test if the process has ended.
func Stop(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
	for deadline := time.Now().Add(limit); !Stopped(pid); <-time.After(time.Millisecond) {
		require.False(t, time.Now().After(deadline), "process %d still runs after %s", pid, limit)
	}
}

// Stopped reports whether all threads of a process have stopped after a SIGSTOP.
func Stopped(pid int) bool {
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	for _, thread := range threads {
		stat, readErr := os.ReadFile(thread)
		_, state, _ := bytes.Cut(stat, []byte(") ")) // after the name
		if readErr != nil || !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return err == nil && len(threads) > 0
}
