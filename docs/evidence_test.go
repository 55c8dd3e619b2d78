package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	named    = regexp.MustCompile("`((?:Test|Benchmark)[A-Z]\\w*)`")
	declared = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)[A-Z]\w*)\(`)
)

// The tests and benchmarks that a page names as evidence exist.
func TestEvidenceExists(t *testing.T) {
	exist := tests(t)
	names := 0
	for _, p := range pages(t) {
		for _, match := range named.FindAllStringSubmatch(p.text, -1) {
			names++
			assert.True(t, exist[match[1]], "%s: there is no %s", p.path, match[1])
		}
	}
	assert.Greater(t, names, 30)
}

// tests are the names of all tests and benchmarks of the repository.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); len(name) > 2 && strings.HasPrefix(name, ".") { // .git and the like
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		for _, match := range declared.FindAllStringSubmatch(string(content), -1) {
			all[match[1]] = true
		}
		return err
	}))
	return all
}
