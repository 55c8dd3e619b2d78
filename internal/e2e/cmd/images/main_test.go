package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e/image"
)

// All images are the same when they are built once more, from a copy of the sources elsewhere, and
// what is written is valid. It takes minutes.
func TestImages(t *testing.T) {
	const root = "../../../.."
	programs := image.Programs()
	from := image.Source{Root: root, Revision: "a commit", Created: time.Unix(1e9, 0)}
	first, err := build(t.Context(), from, programs)
	require.NoError(t, err)
	from.Root = copied(t, root)
	second, err := build(t.Context(), from, programs)
	require.NoError(t, err)
	for i, p := range programs {
		a, err := first[i].Index.Digest()
		require.NoError(t, err)
		b, err := second[i].Index.Digest()
		require.NoError(t, err)
		assert.Equal(t, a, b, p.Image)
		for _, list := range first[i].SBOMs {
			assert.Contains(t, string(list), `"pkg:golang/github.com/bellwether-k8s/bellwether`)
			assert.Contains(t, string(list), `"pkg:golang/go.uber.org/zap@v`, p.Image)
			assert.Contains(t, string(list), `"go.sum: h1:`)
		}
	}
	output := t.TempDir()
	require.NoError(t, write(output, first))
	path, err := layout.FromPath(filepath.Join(output, "layout"))
	require.NoError(t, err)
	all, err := path.ImageIndex()
	require.NoError(t, err)
	require.NoError(t, validate.Index(all))
	lists, err := filepath.Glob(filepath.Join(output, "sbom/*-a*64.spdx.json"))
	require.NoError(t, err)
	assert.Len(t, lists, 2*len(programs))
}

// copied copies the sources, those too that are not committed.
func copied(t *testing.T, root string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard")
	command.Dir = root
	files, err := command.Output()
	require.NoError(t, err)
	to := t.TempDir()
	for file := range strings.Lines(string(files)) {
		file = strings.TrimSpace(file)
		content, err := os.ReadFile(filepath.Join(root, file))
		if os.IsNotExist(err) { // deleted, and that is not committed
			continue
		}
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(to, file)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(to, file), content, 0o600))
	}
	return to
}
