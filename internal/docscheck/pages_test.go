package docscheck_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// root is the repository. Paths in this package are relative to it.
var root = os.DirFS("../..")

// page is a page of the documentation.
type page struct {
	path   string
	text   string // outside of its blocks
	blocks []block
}

// block is the text between two fences.
type block struct {
	language string
	line     int // of the page, where it begins
	lines    []string
}

// pages returns all pages of the project.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*/README.md"} {
		paths, err := fs.Glob(root, pattern)
		require.NoError(t, err)
		require.NotEmpty(t, paths, pattern)
		for _, path := range paths {
			all = append(all, read(t, path))
		}
	}
	return all
}

func read(t *testing.T, path string) page {
	t.Helper()
	content, err := fs.ReadFile(root, path)
	require.NoError(t, err)
	p := page{path: path}
	var open *block
	for i, line := range strings.Split(string(content), "\n") {
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &block{language: language, line: i + 1}
		case fence:
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.lines = append(open.lines, line)
		default:
			assert.NotContains(t, line, "```", "%s:%d: a fence begins a line", path, i+1)
			p.text += line + "\n"
		}
	}
	require.Nil(t, open, "%s: a block has no end", path)
	return p
}

// files calls see with each file below a directory whose name ends with the suffix. It leaves out
// directories such as .git.
func files(t *testing.T, directory, suffix string, see func(path, text string)) {
	t.Helper()
	require.NoError(t, fs.WalkDir(root, directory, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && len(path) > 1 && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, suffix):
			return nil
		}
		content, err := fs.ReadFile(root, path)
		if err == nil {
			see(path, string(content))
		}
		return err
	}))
}

// section returns the text under a heading.
func (p page) section(t *testing.T, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(p.text, "\n"+heading+"\n")
	require.True(t, found, "%s: %s", p.path, heading)
	level, _, _ := strings.Cut(heading, " ")
	text, _, _ = strings.Cut(text, "\n"+level+" ")
	return text
}

// cells returns the cells of one column, counted from 0, of the tables in a text.
func cells(text string, column int) []string {
	var all []string
	for line := range strings.Lines(text) {
		if row, ok := strings.CutPrefix(line, "|"); ok && !strings.HasPrefix(row, "---") {
			all = append(all, strings.TrimSpace(strings.Split(row, "|")[column]))
		}
	}
	return all
}
