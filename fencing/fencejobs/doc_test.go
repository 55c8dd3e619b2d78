package fencejobs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests that the documentation names are there.
func TestDocumentedTests(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	sources := map[string]string{}
	for prefix, pattern := range map[string]string{"": "*_test.go", "e2e:": "../../internal/e2e/fencejobs/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			sources[prefix] += string(source)
		}
	}
	names := regexp.MustCompile(`(e2e:)?Test\w+`).FindAllStringSubmatch(string(doc), -1)
	assert.Greater(t, len(names), 15)
	for _, name := range names {
		assert.Contains(t, sources[name[1]], "\nfunc "+strings.TrimPrefix(name[0], "e2e:")+"(t ")
	}
}
