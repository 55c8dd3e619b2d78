package nodeconfig_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The example of the documentation is the one that is tested.
func TestDocumentedExample(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, example, found := strings.Cut(string(doc), "# A complete example\n//\n")
	require.True(t, found)
	var lines strings.Builder
	for line := range strings.Lines(example) {
		if text, comment := strings.CutPrefix(line, "//\t"); comment {
			lines.WriteString(text)
		}
	}
	tested, err := os.ReadFile("testdata/bmc-then-pdus.yaml")
	require.NoError(t, err)
	_, withoutComment, _ := strings.Cut(string(tested), "\n")
	assert.Equal(t, withoutComment, lines.String())
}

// The documentation names the keys and defaults that there are.
func TestDocumentedKeys(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	source, err := os.ReadFile("settings.go")
	require.NoError(t, err)
	_, keys, _ := strings.Cut(string(doc), "# Keys of config.properties")
	for _, key := range strings.Split(string(source), "case \"")[1:] {
		key, _, _ = strings.Cut(key, `"`)
		assert.Contains(t, keys, "\n//\t"+key+" ")
	}
}
