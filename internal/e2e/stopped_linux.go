package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// stopped reports whether all threads of a process have stopped after a SIGSTOP.
func stopped(pid int) bool {
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
