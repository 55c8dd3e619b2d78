package fenceagents

import (
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhoStartsAProgramIsNotOverlooked(t *testing.T) {
	t.Parallel()
	const again = `exec /bin/sh -c "$0" "$0"` // over and over, so that it is often seen between two programs
	command := exec.Command("/bin/sh", "-c", again, again)
	command.Env = []string{markerKey + "=this one"}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, command.Start())
	f := family{leader: -1, marker: []byte(command.Env[0])}
	for range 200 {
		members, unsure := f.members(map[int]status{})
		require.True(t, unsure || slices.Contains(members, command.Process.Pid))
	}
	assert.Empty(t, f.end())
	assert.ErrorIs(t, syscall.Kill(command.Process.Pid, 0), syscall.ESRCH, "it was not killed, or not reaped")
}
