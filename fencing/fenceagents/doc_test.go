package fenceagents_test

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
	for prefix, pattern := range map[string]string{"": "*_test.go", "lab:": "../../internal/e2e/lab/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			sources[prefix] += string(source)
		}
	}
	names := regexp.MustCompile(`(lab:)?Test\w+`).FindAllStringSubmatch(string(doc), -1)
	assert.Greater(t, len(names), 20)
	for _, name := range names {
		test := "\nfunc " + strings.TrimPrefix(name[0], "lab:") + "(t "
		if !strings.Contains(sources[name[1]], test) { // the sources would be printed otherwise
			assert.Fail(t, "there is no such test", name[0])
		}
	}
}
