package memory_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e/doomed"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// The supervisor releases the Lease of a leader that was killed. The leader does not outlive it.
func TestSupervisor(t *testing.T) {
	t.Parallel()
	e := newElection(t)
	e.launch("a")
	require.Equal(t, "a", e.successor())
	e.launch("b")
	e.requireFollowing("b")

	killed := e.daemons["a"]
	require.NoError(t, killed.Kill())
	require.Equal(t, "b", e.successor())
	e.requireExit(killed, 137)
	assert.Contains(t, e.log(killed), "was released")

	e.launch("a")
	e.requireFollowing("a")
	children := process.Children(e.daemons["b"].Pid())
	require.Len(t, children, 1)
	e.killSupervisor("b")
	e.eventually(func() bool { return doomed.Process(children[0]) }, "the leader ends with its supervisor")
	require.Equal(t, "a", e.successor())
	assert.NotContains(t, e.log(e.daemons["b"]), "was released")
	e.requireOneLeader(3)
}
