package sole_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/sole"
)

func TestNameIsOccupiedOnce(t *testing.T) {
	name := rand.Text() + strings.Repeat("x", 200) // nobody else's on this machine, and longer than the address of a socket
	release, err := sole.Occupy(name)
	require.NoError(t, err)
	_, err = sole.Occupy(name)
	require.ErrorIs(t, err, sole.ErrOccupied)
	other, err := sole.Occupy(name + "y")
	require.NoError(t, err)
	other()
	release()
	release, err = sole.Occupy(name)
	require.NoError(t, err)
	release()
}
