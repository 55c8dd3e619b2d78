//go:build linux

// Package doomed_test kills a test with real nodes, and looks for what it has left.
package doomed_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

// doomedEnv is in the environment of everything that the test that is killed starts. Its value is
// unique.
const doomedEnv = "BELLWETHER_DOOMED"

// frozen is what it says when it may be killed.
const frozen = "a node is frozen"

var cluster *realnode.Cluster

func TestMain(m *testing.M) {
	if os.Getenv(doomedEnv) == "" {
		os.Exit(m.Run())
	}
	realnode.Main(m, &cluster, realnode.Options{Nodes: []string{"n1", "n2"}})
}

// TestNothingIsLeft runs itself as another process, in which it starts nodes and freezes one.
func TestNothingIsLeft(t *testing.T) {
	if os.Getenv(doomedEnv) != "" {
		require.NoError(t, cluster.Node("n2").Freeze())
		fmt.Println(frozen)
		select {}
	}
	if err := realnode.Missing(); err != nil {
		t.Skip(err)
	}
	files := t.TempDir()
	mark := doomedEnv + "=" + files
	doomed := exec.Command("/proc/self/exe", "-test.run=^TestNothingIsLeft$")
	doomed.Env = append(os.Environ(), mark, "TMPDIR="+files)
	output, err := doomed.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, doomed.Start())
	name := fmt.Sprintf("bellwether-%d", doomed.Process.Pid)
	for lines := bufio.NewScanner(output); lines.Scan() && lines.Text() != frozen; {
		t.Log(lines.Text())
	}
	require.NotEmpty(t, processes(t, mark))
	require.NotEmpty(t, groups(t, name))
	require.NoError(t, doomed.Process.Kill())
	_ = doomed.Wait()
	assert.Eventually(t, func() bool {
		left, err := os.ReadDir(files)
		return err == nil && len(left)+len(processes(t, mark))+len(groups(t, name)) == 0
	}, time.Minute, 50*time.Millisecond)
	assert.Empty(t, processes(t, mark))
	assert.Empty(t, groups(t, name))
	left, err := os.ReadDir(files)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// processes are those that the test has started, and their descendants. Without one there is no
// namespace, and without that no mount in it.
func processes(t *testing.T, mark string) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, file := range all {
		environment, err := os.ReadFile(file)
		if err == nil && bytes.Contains(environment, []byte(mark)) {
			found = append(found, filepath.Dir(file))
		}
	}
	return found
}

// groups are the control groups of the test.
func groups(t *testing.T, name string) (found []string) {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		group := filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(parts[1], "name="), parts[2], name)
		if _, err := os.Stat(group); err == nil && parts[1] != "" {
			found = append(found, group)
		}
	}
	return found
}
