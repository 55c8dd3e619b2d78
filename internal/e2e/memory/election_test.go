package memory_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/referee"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// election is copies of a daemon, each with a supervisor. One works.
type election struct {
	*cluster
	terms    *referee.Terms
	daemons  map[string]*e2e.Process // the latest process of each
	launched int
}

func newElection(t *testing.T) *election {
	t.Helper()
	return &election{cluster: newCluster(t), terms: referee.NewTerms(), daemons: map[string]*e2e.Process{}}
}

// launch starts a daemon, or starts it again. Every process has an identity of its own.
func (e *election) launch(names ...string) {
	e.t.Helper()
	for _, name := range names {
		e.launched++
		identity := fmt.Sprintf("%s-%d", name, e.launched)
		e.daemons[name] = e.start("leaderelection", e2e.Command{
			Name: identity, Supervised: true, OnLine: func(line string) { e.terms.Note(name, line) },
			Args: []string{
				"-kubeconfig", e.kubeconfig, "-namespace", namespace, "-lease-duration", lease.String(),
				"-identity", identity, "-work-interval", "20ms",
			},
		})
	}
}

// successor waits for the next term, and for some of its acts.
func (e *election) successor() string {
	e.t.Helper()
	leader := next(e.cluster, e.terms.Begun, "somebody leads").Daemon
	_, before, _ := e.terms.Verdict()
	e.eventually(func() bool {
		_, acts, _ := e.terms.Verdict()
		return acts >= before+5
	}, "%s works", leader)
	return leader
}

// requireFollowing waits until daemons are candidates.
func (e *election) requireFollowing(names ...string) {
	e.t.Helper()
	for _, name := range names {
		e.eventually(func() bool { return strings.Contains(e.log(e.daemons[name]), "following") }, "%s follows", name)
	}
}

// killSupervisor kills the parent of a daemon, and so the daemon.
func (e *election) killSupervisor(name string) {
	e.t.Helper()
	require.NoError(e.t, syscall.Kill(e.daemons[name].Pid(), syscall.SIGKILL))
	e.requireEnd(e.daemons[name])
}

// requireOneLeader ends all, and compares their acts.
func (e *election) requireOneLeader(terms int) {
	e.t.Helper()
	require.NoError(e.t, e.group.Close()) // all their lines are read
	overlap, acts, n := e.terms.Verdict()
	assert.Empty(e.t, overlap, "two leaders")
	assert.Equal(e.t, terms, n)
	e.t.Logf("%d acts in %d terms", acts, n)
}

func TestElection(t *testing.T) {
	t.Parallel()
	e := newElection(t)
	e.launch("a")
	require.Equal(t, "a", e.successor())
	e.launch("b", "c")
	e.requireFollowing("b", "c")

	leader := "a"
	for _, blow := range []func(leader string){
		func(killed string) {
			require.NoError(t, e.daemons[killed].Kill()) // its supervisor releases the Lease
		},
		e.killSupervisor, // the Lease expires
		func(ended string) {
			require.NoError(t, e.daemons[ended].Terminate())
			e.requireExit(e.daemons[ended], 0)
		},
	} {
		blow(leader)
		next := e.successor()
		require.NotEqual(t, leader, next)
		e.launch(leader)
		e.requireFollowing(leader)
		leader = next
	}

	stopped, expired := e.daemons[leader], time.Now().Add(lease)
	require.NoError(t, stopped.Pause())
	require.NotEqual(t, leader, e.successor())
	require.NoError(t, stopped.Resume())
	e.requireExit(stopped, leaderelection.ExitCodeNotLeader)
	e.terms.Excuse(leader, expired)
	e.requireOneLeader(5)
}
