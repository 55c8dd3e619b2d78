// Package labtest gives labs to tests.
package labtest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

// Need skips the test if the user wants none with real agents, and fails it if there are
// none.
func Need(t testing.TB) {
	t.Helper()
	if lab.OptedOut() {
		t.Skip("NOT TESTED: no real fence agents, as asked for by BELLWETHER_LAB=0")
	}
	require.NoError(t, lab.Missing())
}

// New returns a lab for as long as the test. The logs of its devices stay if the test fails.
func New(t testing.TB) *lab.Lab {
	t.Helper()
	Need(t)
	dir, err := os.MkdirTemp("", "bellwether-lab-")
	require.NoError(t, err)
	l, err := lab.New(dir)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		if t.Failed() {
			t.Log("logs of the devices:", dir)
			return
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	return l
}
