package memory_test

import (
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
)

// A program runs only while its bellwether holds the Lease, and leaves no process behind.
func TestRun(t *testing.T) {
	t.Parallel()
	e := newElection(t)
	t.Cleanup(func() {
		for _, p := range e.daemons {
			_ = p.Kill() // its supervisor ends those that have left the group
		}
	})
	program := filepath.Join(programs, "program")
	run := func(name string) {
		first := true
		e.daemons[name] = e.start("bellwether", e2e.Command{
			Name: name, Supervised: true, Args: []string{
				"run", "--kubeconfig", e.kubeconfig, "--namespace", namespace, "--lease", "turns",
				"--duration", lease.String(), "--identity", name, "--grace=1s", "--", program, "-leave",
				"-name", name + e.dir,
			},
			OnLine: func(line string) {
				words := strings.Fields(line)
				if at, err := strconv.ParseInt(words[len(words)-1], 10, 64); err == nil && words[0] == "act" {
					e.terms.Act(name, first, time.Unix(0, at))
					first = false
				}
			},
		})
	}
	run("a")
	require.Equal(t, "a", e.successor())
	run("b")
	e.requireFollowing("b")

	require.NoError(t, e.daemons["a"].Signal(syscall.SIGKILL))
	require.Equal(t, "b", e.successor())
	e.requireExit(e.daemons["a"], 137)
	assert.Empty(t, processes(t, program, "a"+e.dir), "processes are left")

	run("c")
	e.requireFollowing("c")
	require.NoError(t, e.daemons["b"].Terminate())
	require.Equal(t, "c", e.successor())
	e.requireExit(e.daemons["b"], 0)
	assert.Empty(t, processes(t, program, "b"+e.dir), "processes are left")
	assert.Len(t, processes(t, program, "c"+e.dir), 2, "the program and its child")
	require.NoError(t, e.daemons["c"].Terminate())
	e.requireExit(e.daemons["c"], 0)
	assert.Empty(t, processes(t, program, "c"+e.dir), "processes are left")
	e.requireOneLeader(3)
}

// processes returns the command lines of those that run a program with this argument.
func processes(t *testing.T, program, argument string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range files {
		content, _ := os.ReadFile(file) // it may have ended meanwhile
		line := strings.Split(string(content), "\x00")
		if exe, _ := os.Readlink(filepath.Join(filepath.Dir(file), "exe")); exe == program && len(line) > 2 {
			for _, word := range line {
				if word == argument {
					found = append(found, strings.Join(line, " "))
				}
			}
		}
	}
	return found
}
