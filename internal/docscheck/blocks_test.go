package docscheck_test

import (
	"go/scanner"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// A block is an excerpt of compiled or deployed text: Go of a file here or in examples, YAML of a
// manifest in examples or deploy. The end-to-end tests apply the manifests. So the code that readers copy
// works.
func TestBlocksAreExcerpts(t *testing.T) {
	code := append(sources(t, "internal/docscheck", ".go"), sources(t, "examples", ".go")...)
	manifests := append(sources(t, "examples", ".yaml"), sources(t, "deploy", ".yaml")...)
	seen := map[string]int{}
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			seen[b.language]++
			switch b.language {
			case "go":
				assert.True(t, isExcerpt(b.lines, code),
					"%s:%d: is in no Go file here or in examples, so nothing compiles it:\n%s", p.path, b.line,
					strings.Join(b.lines, "\n"))
			case "diff":
				assert.True(t, isAdded(b.lines, code),
					"%s:%d: what is added is in no Go file here or in examples, in this order", p.path, b.line)
			case "yaml":
				var parsed any
				assert.NoError(t, yaml.Unmarshal([]byte(strings.Join(dedent(b.lines), "\n")), &parsed), "%s:%d", p.path,
					b.line)
				assert.True(t, isExcerpt(b.lines, manifests), "%s:%d: stands in no manifest of examples or deploy",
					p.path, b.line)
			case "":
				for _, line := range b.lines {
					assert.NotRegexp(t, `^func |:= |^apiVersion:`, line,
						"%s:%d: code needs a language after its fence, or it is not checked", p.path, b.line)
				}
			default:
				assert.Fail(t, "blocks of this language are not checked", "%s:%d: %q", p.path, b.line, b.language)
			}
		}
	}
	for _, language := range []string{"go", "diff", "yaml"} {
		assert.Positive(t, seen[language], "no block of %s was found", language)
	}
}

func TestExcerpts(t *testing.T) {
	one := []source{{"a", "", "\tb {", "\t\tc()", "\t}"}}
	assert.True(t, isExcerpt([]string{"b {", "\tc()", "}"}, one), "less indented")
	assert.True(t, isExcerpt([]string{"\t\t\tb {", "\t\t\t\tc()"}, one), "more indented")
	assert.False(t, isExcerpt([]string{"b {", "c()"}, one), "indented otherwise")
	assert.False(t, isExcerpt([]string{"b {", "\td()"}, one))
	assert.False(t, isExcerpt([]string{"\t}", "\te()"}, one), "past the end")
	assert.False(t, isExcerpt(nil, one), "nothing")
	assert.True(t, isAdded([]string{" a", "+b {", "+}"}, one))
	assert.False(t, isAdded([]string{"+}", "+b {"}, one), "the other way round")
	assert.False(t, isAdded([]string{" a"}, one), "nothing")
	assert.Equal(t, source{"package a", "", "", "", "var s = ", "", "// c"},
		compiled("package a\n/* b\nb */\n\nvar s = `d\n`\n// c"))
}

// source is the lines of a file. Those that are not compiled are left out.
type source []string

// sources reads the files below a directory whose names have the suffix.
func sources(t *testing.T, directory, suffix string) []source {
	t.Helper()
	var all []source
	files(t, directory, suffix, func(_, text string) {
		if suffix == ".go" {
			all = append(all, compiled(text))
			return
		}
		all = append(all, strings.Split(text, "\n"))
	})
	require.NotEmpty(t, all)
	return all
}

// compiled returns the lines of Go code, without comments and strings of several lines, which only
// look like code.
func compiled(code string) source {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(code))
	s.Init(file, []byte(code), nil, scanner.ScanComments)
	var kept strings.Builder
	end := 0
	for {
		at, tok, text := s.Scan()
		if tok == token.EOF {
			return strings.Split(kept.String()+code[end:], "\n")
		}
		if tok == token.COMMENT && strings.HasPrefix(text, "/*") || tok == token.STRING &&
			strings.Contains(text, "\n") {
			kept.WriteString(code[end:file.Offset(at)] + strings.Repeat("\n", strings.Count(text, "\n")))
			end = file.Offset(at) + len(text)
		}
	}
}

// isExcerpt reports whether a source contains the lines in sequence, with any common indent.
func isExcerpt(lines []string, sources []source) bool {
	lines = dedent(lines)
	return len(lines) > 0 && slices.ContainsFunc(sources, func(s source) bool {
		for start := range s {
			if begin, found := strings.CutSuffix(s[start], lines[0]); found && strings.TrimSpace(begin) == "" &&
				s.has(start, begin, lines) {
				return true
			}
		}
		return false
	})
}

// has reports whether the lines follow from start on, each after indent.
func (s source) has(start int, indent string, lines []string) bool {
	if start+len(lines) > len(s) {
		return false
	}
	for i, line := range lines {
		if s[start+i] != indent+line && (line != "" || s[start+i] != "") {
			return false
		}
	}
	return true
}

// isAdded reports whether a source contains the lines that a diff adds, in this order.
func isAdded(diff []string, sources []source) bool {
	return slices.ContainsFunc(sources, func(s source) bool {
		rest, adds := s, false
		for _, line := range diff {
			code, added := strings.CutPrefix(line, "+")
			if !added {
				continue
			}
			adds = true
			i := slices.IndexFunc(rest, func(l string) bool { return strings.TrimSpace(l) == strings.TrimSpace(code) })
			if i < 0 {
				return false
			}
			rest = rest[i+1:]
		}
		return adds
	})
}

// dedent removes the common indent of all lines.
func dedent(lines []string) []string {
	if len(lines) == 0 {
		return nil
	}
	first := lines[0]
	common := first[:len(first)-len(strings.TrimLeft(first, " \t"))]
	dedented := make([]string, len(lines))
	for _, line := range lines {
		for line != "" && !strings.HasPrefix(line, common) {
			common = common[:len(common)-1]
		}
	}
	for i, line := range lines {
		dedented[i] = strings.TrimPrefix(line, common)
	}
	return dedented
}
