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
	cited    = regexp.MustCompile(`\b((?:Test|Benchmark)[A-Z]\w*)`)
	example  = regexp.MustCompile(`(?m)^//\t.*$`)
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

// So do those that the documentation of a package names.
func TestEvidenceOfPackagesExists(t *testing.T) {
	exist := tests(t)
	names := 0
	files(t, "doc.go", func(path, text string) {
		for _, match := range cited.FindAllStringSubmatch(example.ReplaceAllString(text, ""), -1) {
			names++
			assert.True(t, exist[match[1]], "%s: there is no %s", path, match[1])
		}
	})
	assert.Greater(t, names, 100)
}

// tests are the names of all tests and benchmarks of the repository.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	files(t, "_test.go", func(_, text string) {
		for _, match := range declared.FindAllStringSubmatch(text, -1) {
			all[match[1]] = true
		}
	})
	return all
}

// files calls see with each file of the repository whose name ends like this.
func files(t *testing.T, suffix string, see func(path, text string)) {
	t.Helper()
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
		if !strings.HasSuffix(path, suffix) {
			return nil
		}
		content, err := os.ReadFile(path)
		see(path, string(content))
		return err
	}))
}
