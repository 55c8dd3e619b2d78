package docscheck_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// documented are the packages whose messages a page explains.
var documented = map[string][]string{
	"docs/operating.md": {
		"leaderelection", "leaderforlife", "shardlease", "sharder", "sharder/shard", "sharder/replica",
		"sharder/internal/membership", "sharder/internal/protocol",
		"endpoints", "supervisor", "internal/leasehold", "internal/kube",
	},
	"docs/fencing.md": {
		"fencing", "internal/fencing/statemachine", "fencing/fenceagents", "fencing/fencejobs",
		"fencing/kdump", "internal/kube",
	},
}

// Operators search the page for log lines. Each line in it occurs literally in the code, and each
// warning of the code is in it. Warnings that end with a retry are exempt.
func TestMessagesAreThoseOfTheCode(t *testing.T) {
	for name, packages := range documented {
		t.Run(name, func(t *testing.T) {
			literals, warnings := messages(t, packages)
			page := read(t, name)
			var explained []string
			for _, cell := range cells(page.section(t, "## Log lines"), 0) {
				for _, span := range codeSpan.FindAllString(cell, -1) {
					explained = append(explained, strings.Trim(span, "`"))
				}
			}
			assert.NotEmpty(t, explained)
			for _, message := range explained {
				assert.True(t, slices.Contains(literals, message), "no package says %q", message)
			}
			for _, message := range warnings {
				if !strings.HasSuffix(message, ", retrying") {
					assert.True(t, slices.Contains(explained, message), "nothing explains %q", message)
				}
			}
			reasons := codeSpan.FindAllString(strings.Join(cells(page.section(t, "## Events"), 1), " "), -1)
			assert.NotEmpty(t, reasons)
			for _, reason := range reasons {
				assert.True(t, slices.Contains(literals, strings.Trim(reason, "`")), "no Event has the reason %s",
					reason)
			}
		})
	}
}

// messages returns all strings in the code of packages, and the messages that are logged at Warn or
// above.
func messages(t *testing.T, packages []string) (literals, warnings []string) {
	t.Helper()
	for _, directory := range packages {
		paths, err := fs.Glob(root, directory+"/*.go")
		require.NoError(t, err)
		require.NotEmpty(t, paths, directory)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			content, err := fs.ReadFile(root, path)
			require.NoError(t, err)
			file, err := parser.ParseFile(token.NewFileSet(), path, content, 0)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit, *ast.BinaryExpr:
					literals = append(literals, unquoted(n)...)
				case *ast.CallExpr:
					if called, ok := n.Fun.(*ast.SelectorExpr); ok &&
						slices.Contains([]string{"Warn", "Error", "sayOnce"}, called.Sel.Name) && len(n.Args) > 0 {
						warnings = append(warnings, unquoted(n.Args[0])...)
					} else if ok && called.Sel.Name == "Log" && len(n.Args) > 1 {
						warnings = append(warnings, unquoted(n.Args[1])...)
					} else if ok && called.Sel.Name == "Note" && len(n.Args) > 3 {
						warnings = append(warnings, unquoted(n.Args[2])...)
					}
				}
				return true
			})
		}
	}
	assert.NotEmpty(t, warnings)
	return literals, warnings
}

// unquoted is the value of a string, or of strings that are joined; nothing for other expressions.
func unquoted(n ast.Node) []string {
	switch n := n.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(n.Value)
		if n.Kind != token.STRING || err != nil {
			return nil
		}
		return []string{value}
	case *ast.BinaryExpr:
		left, right := unquoted(n.X), unquoted(n.Y)
		if n.Op != token.ADD || left == nil || right == nil {
			return nil
		}
		return []string{left[0] + right[0]}
	}
	return nil
}
