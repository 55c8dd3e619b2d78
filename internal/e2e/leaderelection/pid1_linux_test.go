package leaderelection_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

// TestKernelDeadlineInAContainer runs replicas as PID 1 of a pid namespace, where the kernel spares
// them their own timer.
func TestKernelDeadlineInAContainer(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		refused := c.startAsPID1("a", "-kernel-deadline")
		output := refused.Rest()
		assert.Equal(t, "exit status 1", refused.End())
		for _, remedy := range []string{"shareProcessNamespace: true", "tini", "leaderelection.ReexecIfPID1"} {
			assert.Contains(t, output, remedy)
		}

		container := c.startAsPID1("b", "-kernel-deadline", "-reexec")
		for container.Line() != "begin" {
		}
		leader := childOf(t, container.Process.Pid)
		c.requireLookout("l", "ResponseStarted") // whose end is to be seen
		require.NoError(t, syscall.Kill(leader, syscall.SIGSTOP))
		container.Rest()
		assert.Equal(t, "exit status 137", container.End(), "who is stopped ends by SIGKILL only")
		ended := time.Now()
		dead := c.requireLookout("l", "ResponseComplete").At // the kernel has closed its connections
		lived := dead.Sub(c.lease().Spec.RenewTime.Time)
		t.Logf("dead %v after the last renewal; PID 1 was seen to end %v later", lived, ended.Sub(dead))
		assert.Greater(t, lived, usable, "not before it could have ended itself")

		c.requireAudited("b", time.Time{}, "create 201", 1) // came later than anything of the other one
		assert.Empty(t, c.audited("a", time.Time{}), "the refused one has sent nothing")
	})
}

// startAsPID1 starts a replica as PID 1 of a pid namespace, as a container does. Standard error is
// among its output. It is in none of the harness' groups, which do not reach into namespaces: the
// kernel ends it with the test.
func (c *cluster) startAsPID1(name string, args ...string) *subprocess.Child {
	c.t.Helper()
	child := subprocess.New(c.t, "")
	command := c.command("./replica", c.user(name, verbs...), name, args...)
	child.Path, child.Args = command.Path, append([]string{command.Path}, command.Args...)
	child.Env = append(os.Environ(), command.Env...)
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return child.StartAsPID1()
}

// childOf returns the only child of a process.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // of each of its threads
	require.NoError(t, err)
	var children []string
	for _, list := range lists {
		content, err := os.ReadFile(list)
		require.NoError(t, err)
		children = append(children, strings.Fields(string(content))...)
	}
	require.Len(t, children, 1)
	child, err := strconv.Atoi(children[0])
	require.NoError(t, err)
	return child
}
