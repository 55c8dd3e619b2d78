package main

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// client-go runs a kubeconfig's plugin for credentials in this process, and waits for it.
func TestPluginIsLeftToItsParent(t *testing.T) {
	c, err := adopt(t.Context())
	require.NoError(t, err)
	defer close(c.starts)
	for range 200 {
		require.NoError(t, exec.Command("/bin/true").Run())
	}
	plugin := exec.Command("/bin/cat")
	input, err := plugin.StdinPipe() // ends it
	require.NoError(t, err)
	require.NoError(t, plugin.Start())

	program, err := c.start("/bin/sh", []string{"sh", "-c", "sleep 60 &"}, os.Environ(), false)
	require.NoError(t, err)
	status := <-program.exit
	assert.Equal(t, 0, status.ExitStatus())
	ended, killed := c.end(time.Minute)
	assert.True(t, ended)
	assert.True(t, killed, "what the program has left behind")
	require.NoError(t, input.Close())
	assert.NoError(t, plugin.Wait())
	_, err = unix.Wait4(-1, nil, unix.WNOHANG, nil)
	assert.ErrorIs(t, err, unix.ECHILD, "nothing is left")
}
