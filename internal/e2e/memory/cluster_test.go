package memory_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	namespace = "default"
	poll      = 20 * time.Millisecond
)

// cluster is an API server of a test, and the processes that use it.
type cluster struct {
	t          *testing.T
	server     *apisim.Standalone
	client     kubernetes.Interface // the test's
	kubeconfig string
	group      *e2e.Group
	dir        string
	runs       []*e2e.Process
	began      time.Time
}

func newCluster(t *testing.T, resources ...apisim.Resource) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), began: time.Now()}
	var err error
	c.server, err = apisim.Listen(t.Context(), resources...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.server.Close()) })
	c.client, err = kubernetes.NewForConfig(c.server.Client("referee").Config())
	require.NoError(t, err)
	content, err := c.server.Kubeconfig("process", namespace)
	require.NoError(t, err)
	c.kubeconfig = c.write("kubeconfig", content)
	c.group, err = e2e.NewGroup(c.dir)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, c.group.Close())
		if t.Failed() {
			c.showLogs()
		}
	})
	return c
}

func (c *cluster) write(name string, content []byte) (path string) {
	c.t.Helper()
	path = filepath.Join(c.dir, name)
	require.NoError(c.t, os.WriteFile(path, content, 0o600))
	return path
}

// showLogs shows how each log ends.
func (c *cluster) showLogs() {
	for _, p := range c.runs {
		text := c.log(p)
		c.t.Logf("%s:\n%s", filepath.Base(p.Log()), text[max(0, len(text)-4000):])
	}
}

func (c *cluster) log(p *e2e.Process) string {
	c.t.Helper()
	text, err := os.ReadFile(p.Log())
	require.NoError(c.t, err)
	return string(text)
}

// start starts a program.
func (c *cluster) start(program string, command e2e.Command) *e2e.Process {
	c.t.Helper()
	command.Path = filepath.Join(programs, program)
	p, err := c.group.Start(command)
	require.NoError(c.t, err)
	c.runs = append(c.runs, p)
	return p
}

// requireEnd waits for the end of a process.
func (c *cluster) requireEnd(p *e2e.Process) e2e.Exit {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(c.t, err)
	c.requireClock()
	return exit
}

// requireExit waits for the end of a process, which must have this exit code.
func (c *cluster) requireExit(p *e2e.Process, code int) {
	c.t.Helper()
	exit := c.requireEnd(p)
	require.Equal(c.t, code, exit.Code, "%v", exit)
}

// eventually waits until it is so.
func (c *cluster) eventually(so func() bool, what string, args ...any) {
	c.t.Helper()
	ticks := time.NewTicker(poll)
	defer ticks.Stop()
	for deadline := time.Now().Add(patience); !so(); <-ticks.C {
		if time.Now().After(deadline) {
			c.t.Fatalf("not within %v: "+what, append([]any{patience}, args...)...)
		}
		c.requireClock()
		c.requireWorking()
	}
	c.requireClock()
}

// requireClock skips the test if the machine's clock was set.
func (c *cluster) requireClock() {
	c.t.Helper()
	if by := e2e.ClockSet(c.began); by != 0 {
		c.t.Skipf("NOT TESTED: the machine's clock was set by %v meanwhile", by)
	}
}

// next waits for an event.
func next[T any](c *cluster, events <-chan T, what string) (event T) {
	c.t.Helper()
	c.eventually(func() bool {
		select {
		case event = <-events:
			return true
		default:
			return false
		}
	}, what)
	return event
}

// Exit codes of programs that refuse to work, as with a flag that is wrong.
const (
	refused = 1
	misused = 2
)

// requireWorking requires that no program refuses to work: what a test waits for would not come.
func (c *cluster) requireWorking() {
	c.t.Helper()
	for _, p := range c.runs {
		select {
		case <-p.Done():
			exit := c.requireEnd(p)
			require.NotContains(c.t, []int{refused, misused}, exit.Code, "%s ended", filepath.Base(p.Log()))
		default:
		}
	}
}
