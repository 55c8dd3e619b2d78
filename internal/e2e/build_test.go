package e2e

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeSource is a module that builds like the control plane's, in a second.
func fakeSource(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module fake\n\ngo 1.26.0\n\n" +
			"require (\n\tk8s.io/kubernetes v1.2.3\n\tsigs.k8s.io/kwok v0.4.5\n)\n\n" +
			"replace (\n\tk8s.io/kubernetes => ./kubernetes\n\tsigs.k8s.io/kwok => ./kwok\n)\n",
		"kubernetes/go.mod":        "module k8s.io/kubernetes\n",
		"kwok/go.mod":              "module sigs.k8s.io/kwok\n",
		"cmd/controlplane/main.go": "package main\n\nfunc main() {}\n",
		"cmd/kwok/main.go":         "package main\n\nfunc main() {}\n",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

// fake builds from fakeSource into a cache.
func fake(source, cache string, progress io.Writer) builder {
	return builder{source: source, cache: cache, progress: progress}
}

func TestBuildUsesItsOwnModule(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "go.mod")
	require.NoError(t, os.WriteFile(elsewhere, []byte("module elsewhere\n"), 0o644))
	t.Setenv("GOFLAGS", "'-modfile="+elsewhere+"'") // there may be a space in it
	_, err := fake(fakeSource(t), t.TempDir(), io.Discard).binaries(t.Context())
	require.NoError(t, err)
}

func TestConcurrentCallsShareOneBuild(t *testing.T) {
	t.Parallel()
	source, cache := fakeSource(t), t.TempDir()
	const callers = 4
	var (
		bins   [callers]Bin
		output [callers]bytes.Buffer
		joined sync.WaitGroup
	)
	for i := range callers {
		joined.Go(func() {
			var err error
			bins[i], err = fake(source, cache, &output[i]).binaries(t.Context())
			assert.NoError(t, err)
		})
	}
	joined.Wait()
	builds := 0
	for i := range callers {
		assert.Equal(t, bins[0], bins[i])
		builds += strings.Count(output[i].String(), "building controlplane and kwok")
	}
	assert.Equal(t, 1, builds)
	assert.FileExists(t, bins[0].ControlPlane)
	assert.FileExists(t, bins[0].KWOK)
	assert.NoFileExists(t, filepath.Join(filepath.Dir(bins[0].KWOK), "node"), "only real nodes need it")

	var quiet bytes.Buffer
	again, err := fake(source, cache, &quiet).binaries(t.Context())
	require.NoError(t, err)
	assert.Equal(t, bins[0], again)
	assert.Empty(t, quiet.String(), "what is built is not talked about")

	main := filepath.Join(source, "cmd", "kwok", "main.go")
	require.NoError(t, os.WriteFile(main, []byte("package main\n\nfunc main() { println() }\n"), 0o644))
	changed, err := fake(source, cache, io.Discard).binaries(t.Context())
	require.NoError(t, err)
	assert.NotEqual(t, bins[0], changed, "other sources are another build")
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	t.Parallel()
	source, cache := fakeSource(t), t.TempDir()
	main := filepath.Join(source, "cmd", "kwok", "main.go")
	require.NoError(t, os.WriteFile(main, []byte("package main\n\nfunc main() { undefined() }\n"), 0o644))
	_, err := fake(source, cache, io.Discard).binaries(t.Context())
	require.ErrorContains(t, err, "undefined: undefined", "the compiler's words")
	left, err := os.ReadDir(cache)
	require.NoError(t, err)
	for _, entry := range left {
		assert.False(t, entry.IsDir(), "left behind: %s", entry.Name())
	}
}

// A build that was killed leaves its temporary directory: the next one must neither take it nor
// stumble over it.
func TestBuildAfterKilledBuild(t *testing.T) {
	t.Parallel()
	source, cache := fakeSource(t), t.TempDir()
	hash, err := sourceHash(source)
	require.NoError(t, err)
	temporary := filepath.Join(cache, hash+"-controlplane-kwok.tmp")
	require.NoError(t, os.MkdirAll(filepath.Join(temporary, "kwok"), 0o755))
	bin, err := fake(source, cache, io.Discard).binaries(t.Context())
	require.NoError(t, err)
	assert.FileExists(t, bin.KWOK)
	assert.NoDirExists(t, temporary)
}

func TestWaitingForABuildEndsWithTheContext(t *testing.T) {
	t.Parallel()
	source, cache := fakeSource(t), t.TempDir()
	hash, err := sourceHash(source)
	require.NoError(t, err)
	unlock, err := lockFile(t.Context(), filepath.Join(cache, hash+"-controlplane-kwok.lock"),
		func(time.Duration) { t.Error("lock is taken") })
	require.NoError(t, err)
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var progress bytes.Buffer
	_, err = fake(source, cache, &progress).binaries(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Contains(t, progress.String(), "waiting for another process")
}

func TestSourceDirIsThisModules(t *testing.T) {
	t.Parallel()
	dir, err := sourceDir(t.Context())
	require.NoError(t, err)
	assert.FileExists(t, filepath.Join(dir, "go.mod"))
}
