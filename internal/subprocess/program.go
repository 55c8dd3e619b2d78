package subprocess

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// WriteProgram writes a program that a test executes. No process is started meanwhile: it would
// inherit the open file, which could not be executed as long as that process has it.
func WriteProgram(t *testing.T, path, content string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o700))
}
