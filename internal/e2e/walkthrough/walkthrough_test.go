package walkthrough

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

const (
	root = "../../.."
	page = root + "/docs/walkthrough.md"

	// building is how long a cold cache may take.
	building = 10 * time.Minute
	// patience is for what takes seconds on an idle machine.
	patience = 2 * time.Minute
)

// A reader types the commands of the page, one after the other, and sees what it shows.
func TestWalkthrough(t *testing.T) {
	if err := realnode.Missing(); err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	all := steps(string(text))
	require.NotEmpty(t, all)
	out, err := shell(t.Context(), nil, "make kubectl")
	require.NoError(t, err, out)
	bin, err := filepath.Abs(root + "/bin")
	require.NoError(t, err)
	environment := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+playground(t),
		"HOME="+t.TempDir()) // kubectl keeps caches there
	for _, s := range all {
		deadline := time.Now().Add(patience)
		for {
			out, err := shell(t.Context(), environment, s.command)
			if err == nil && s.agrees(out) {
				break
			}
			if !s.reads() || time.Now().After(deadline) {
				t.Fatalf("$ %s\nerror: %v\nprinted:\n%s\nthe page shows:\n%s", s.command, err, out,
					strings.Join(s.shown, "\n"))
			}
			select {
			case <-t.Context().Done():
			case <-time.After(time.Second):
			}
		}
		t.Log("$", s.command)
	}
}

// shell runs a command in the root of the repository, and returns what it prints.
func shell(ctx context.Context, environment []string, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, building)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", command)
	c.Dir, c.Env = root, environment
	out, err := c.CombinedOutput()
	return string(out), err
}

// playground starts that of the page, and returns its kubeconfig. At the end of the test it gets
// Ctrl-C, and leaves nothing.
func playground(t *testing.T) (kubeconfig string) {
	t.Helper()
	temporary, err := os.MkdirTemp("", "walkthrough-")
	require.NoError(t, err)
	subprocess.DefaultSignals() // or it does not get Ctrl-C in the background of a script
	c := exec.Command("make", "playground", "NODES=real")
	c.Dir, c.Env = root, append(os.Environ(), "TMPDIR="+temporary)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a terminal does, which signals all of it
	printed := &output{}
	c.Stdout, c.Stderr = printed, printed
	require.NoError(t, c.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait() // make says that it was interrupted
	}()
	t.Cleanup(func() {
		require.NoError(t, syscall.Kill(-c.Process.Pid, syscall.SIGINT))
		select {
		case <-ended:
		case <-time.After(patience):
			require.NoError(t, syscall.Kill(-c.Process.Pid, syscall.SIGKILL))
			assert.Fail(t, "the playground does not end", printed.String())
		}
		left, err := os.ReadDir(temporary)
		require.NoError(t, err)
		assert.Empty(t, left, "it leaves something: %s", printed.String())
		require.NoError(t, os.RemoveAll(temporary))
	})
	line := regexp.MustCompile(`(?m)^export KUBECONFIG=(.+)$`)
	for deadline := time.Now().Add(building); ; {
		if found := line.FindStringSubmatch(printed.String()); found != nil {
			return found[1]
		}
		select {
		case <-ended:
			require.Fail(t, "the playground has ended", printed.String())
		case <-time.After(100 * time.Millisecond):
			require.True(t, time.Now().Before(deadline), "no cluster: %s", printed.String())
		}
	}
}

// output is what a process has printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
