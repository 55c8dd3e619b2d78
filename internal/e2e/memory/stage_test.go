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

// stage is an API server of a test, and the processes that use it.
type stage struct {
	t          *testing.T
	server     *apisim.Standalone
	client     kubernetes.Interface // the test's
	kubeconfig string
	group      *e2e.Group
	dir        string
	runs       []*e2e.Process
}

func newStage(t *testing.T, resources ...apisim.Resource) *stage {
	t.Helper()
	s := &stage{t: t, dir: t.TempDir()}
	var err error
	s.server, err = apisim.Listen(t.Context(), resources...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.server.Close()) })
	s.client, err = kubernetes.NewForConfig(s.server.Client("referee").Config())
	require.NoError(t, err)
	content, err := s.server.Kubeconfig("process", namespace)
	require.NoError(t, err)
	s.kubeconfig = s.write("kubeconfig", content)
	s.group, err = e2e.NewGroup(s.dir)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.group.Close())
		if t.Failed() {
			s.showLogs()
		}
	})
	return s
}

func (s *stage) write(name string, content []byte) (path string) {
	s.t.Helper()
	path = filepath.Join(s.dir, name)
	require.NoError(s.t, os.WriteFile(path, content, 0o600))
	return path
}

// showLogs shows how each log ends.
func (s *stage) showLogs() {
	for _, p := range s.runs {
		text := s.log(p)
		s.t.Logf("%s:\n%s", filepath.Base(p.Log()), text[max(0, len(text)-4000):])
	}
}

func (s *stage) log(p *e2e.Process) string {
	s.t.Helper()
	text, err := os.ReadFile(p.Log())
	require.NoError(s.t, err)
	return string(text)
}

// start starts a program.
func (s *stage) start(program string, command e2e.Command) *e2e.Process {
	s.t.Helper()
	command.Path = filepath.Join(programs, program)
	p, err := s.group.Start(command)
	require.NoError(s.t, err)
	s.runs = append(s.runs, p)
	return p
}

// requireEnd waits for the end of a process.
func (s *stage) requireEnd(p *e2e.Process) e2e.Exit {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(s.t, err)
	return exit
}

// requireExit waits for the end of a process, which must have this exit code.
func (s *stage) requireExit(p *e2e.Process, code int) {
	s.t.Helper()
	exit := s.requireEnd(p)
	require.Equal(s.t, code, exit.Code, "%v", exit)
}

// eventually waits until it is so.
func (s *stage) eventually(so func() bool, what string, args ...any) {
	s.t.Helper()
	ticks := time.NewTicker(poll)
	defer ticks.Stop()
	for deadline := time.Now().Add(patience); !so(); <-ticks.C {
		if time.Now().After(deadline) {
			s.t.Fatalf("not within %v: "+what, append([]any{patience}, args...)...)
		}
		s.requireWorking()
	}
}

// next waits for an event.
func next[T any](s *stage, events <-chan T, what string) (event T) {
	s.t.Helper()
	s.eventually(func() bool {
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
func (s *stage) requireWorking() {
	s.t.Helper()
	for _, p := range s.runs {
		select {
		case <-p.Done():
			exit := s.requireEnd(p)
			require.NotContains(s.t, []int{refused, misused}, exit.Code, "%s ended", filepath.Base(p.Log()))
		default:
		}
	}
}
