package leaderelection_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

// supervise starts a replica with a supervisor. Signals are for the replica.
func (c *cluster) supervise(name string, args ...string) *e2e.Process {
	c.t.Helper()
	child := c.command("./replica", c.user(name, verbs...), name, append(args, "-supervised")...)
	child.Supervised = true
	p, err := c.cp.Run(child)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = p.Kill() })
	return p
}

// killBoth kills a replica and its supervisor, as when a container is killed.
func (c *cluster) killBoth(p *e2e.Process) {
	c.t.Helper()
	require.NoError(c.t, unix.Kill(p.Pid(), unix.SIGKILL))
	_ = p.Signal(syscall.SIGKILL) // the kernel may have been faster
	c.requireEnd(p)
}

// A leader that dies is succeeded as fast as one that ends.
func TestDeadLeaderIsSucceededAtOnce(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{unix.SIGKILL, unix.SIGSEGV, unix.SIGABRT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			e2e.Repeat(t, func(t *testing.T) {
				c := newCluster(t, shared)
				processes := map[string]*e2e.Process{"a": c.supervise("a")}
				c.term(1)
				processes["b"] = c.supervise("b")
				c.requireWatching("b")
				var took []time.Duration
				for round := range 3 {
					leader := processes[c.term(round+1).replica]
					killed := time.Now()
					require.NoError(t, leader.Signal(signal))
					next := c.term(round + 2)
					took = append(took, next.first.Sub(killed))
					assert.Less(t, took[round], c.gauge.Slack(killed), "its deadline is %v away", usable)
					c.requireEnd(leader)
					assert.Contains(t, c.log(leader), "was released")
					restarted := time.Now()
					require.NoError(t, leader.Restart())
					c.requireWatchingSince(next.otherOf("a", "b"), restarted)
				}
				t.Logf("from death to the first act of the next leader: %v", took)
				c.requireOneLeader()
			})
		})
	}
}

// otherOf returns the one of two replicas whose term this is not.
func (t term) otherOf(a, b string) string {
	if t.replica == a {
		return b
	}
	return a
}

// A supervisor that cannot act makes nothing slower or less safe.
func TestLeaderWhoseSupervisorCannotActIsSucceededAfterExpiry(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(*cluster, *e2e.Process){
		"both are killed": (*cluster).killBoth,
		"the supervisor is killed, and the kernel kills the leader": func(c *cluster, p *e2e.Process) {
			require.NoError(c.t, unix.Kill(p.Pid(), unix.SIGKILL))
			c.requireEnd(p)
		},
		"the supervisor is stopped": func(c *cluster, p *e2e.Process) {
			subprocess.Stop(c.t, p.Pid())
			c.t.Cleanup(func() { _ = unix.Kill(p.Pid(), unix.SIGKILL) })
			require.NoError(c.t, p.Signal(syscall.SIGKILL))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, shared)
			leader := c.supervise("a")
			c.requireRunnerUp("b")
			struck := time.Now()
			strike(c, leader)
			next := c.term(2)
			assert.GreaterOrEqual(t, next.first.Sub(c.lastWrite("a", next.first)), duration-100*time.Millisecond)
			assert.LessOrEqual(t, next.first.Sub(struck), duration+c.gauge.Slack(struck))
			c.requireOneLeader()
		})
	}
}

// The supervisor must be small, because it is in every container.
func TestSupervisorIsSmall(t *testing.T) {
	t.Parallel()
	program, err := shared.Program(t.Context(), exampleProgram)
	require.NoError(t, err)
	m := newCluster(t, shared)
	m.program = program
	c := m.command("", m.user("a", verbs...), "a")
	c.Supervised = true
	c.OnLine = nil
	p, err := m.cp.Run(c)
	require.NoError(t, err)
	m.requireLog(p, `"working"`)
	content, err := os.ReadFile("/proc/" + strconv.Itoa(p.Pid()) + "/status")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(content), "VmRSS:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	t.Logf("the supervisor has %.1f MB of resident memory", float64(kilobytes)/1024)
	assert.LessOrEqual(t, kilobytes, 12<<10)
	require.NoError(t, p.Terminate())
	m.requireExit(p, 0)
}
