package lab_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e/lab/labtest"
)

// What an agent means by off was read in its program, and in the library of them all. Another program may mean
// something else: read it, mend the table in docs/fencing.md and fenceagents.provingOff, and then its sum.
func TestWhatOffMeansIsKnownOfEachInstalledAgent(t *testing.T) {
	t.Parallel()
	labtest.Need(t)
	known, err := os.ReadFile("testdata/agents.sha256")
	require.NoError(t, err)
	page, err := os.ReadFile("../../../docs/fencing.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "\n## What off means\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	var files []string
	for _, pattern := range []string{"/usr/sbin/fence_*", "/usr/share/fence/*.py"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, found...)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		sum := fmt.Sprintf("%x  %s\n", sha256.Sum256(content), file)
		assert.Contains(t, string(known), sum, "%s is new, or another one", file)
		if name := filepath.Base(file); strings.HasPrefix(name, "fence_") {
			assert.Contains(t, table, "`"+name+"`", "no verdict on its off")
		}
	}
	for line := range strings.Lines(string(known)) {
		_, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		assert.True(t, slices.Contains(files, file), "%s is gone", file)
	}
}
