package shardlease_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

func TestNameIsOccupiedOnce(t *testing.T) {
	name := t.Name() + strings.Repeat("x", 200) // longer than the address of a socket
	release, err := shardlease.Occupy(name)
	require.NoError(t, err)
	_, err = shardlease.Occupy(name)
	require.ErrorIs(t, err, unix.EADDRINUSE)
	other, err := shardlease.Occupy(name + "y")
	require.NoError(t, err)
	other()
	release()
	release, err = shardlease.Occupy(name)
	require.NoError(t, err)
	release()
}
