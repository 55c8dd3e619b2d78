package process_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/process"
)

func TestLockIsHeldOnce(t *testing.T) {
	name := rand.Text() + strings.Repeat("x", 200) // unique on this machine, and longer than a socket's address
	release, err := process.Lock(name)
	require.NoError(t, err)
	_, err = process.Lock(name)
	require.ErrorIs(t, err, process.ErrLocked)
	other, err := process.Lock(name + "y")
	require.NoError(t, err)
	other()
	release()
	release, err = process.Lock(name)
	require.NoError(t, err)
	release()
}
