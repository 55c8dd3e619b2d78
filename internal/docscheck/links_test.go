package docscheck_test

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
)

var (
	link     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	codeSpan = regexp.MustCompile("`[^`]+`")
)

// Links within the repository have a target, also those to a heading.
func TestLinksLeadSomewhere(t *testing.T) {
	links := 0
	for _, p := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(p.text, ""), -1) {
			target := match[1]
			if strings.Contains(target, "://") {
				continue
			}
			links++
			file, anchor, hasAnchor := strings.Cut(target, "#")
			destination := path.Join(path.Dir(p.path), file)
			if file == "" {
				destination = p.path
			}
			if _, err := fs.Stat(root, destination); !assert.NoError(t, err, "%s: %s", p.path, target) {
				continue
			}
			if hasAnchor {
				assert.True(t, slices.Contains(anchors(read(t, destination)), anchor),
					"%s: %s: there is no such heading", p.path, target)
			}
		}
	}
	assert.Greater(t, links, 50)
}

func TestAnchors(t *testing.T) {
	p := page{text: "# One leader\n## From operator-lib's `leader.Become`, v1\n### One leader\n#no heading\n"}
	assert.Equal(t, []string{"one-leader", "from-operator-libs-leaderbecome-v1", "one-leader-1"}, anchors(p))
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(p page) []string {
	var all []string
	times := map[string]int{}
	for line := range strings.Lines(p.text) {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(heading))
		times[name]++
		if n := times[name] - 1; n > 0 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		all = append(all, name)
	}
	return all
}

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
	files(t, ".", "doc.go", func(path, text string) {
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
	files(t, ".", "_test.go", func(_, text string) {
		for _, match := range declared.FindAllStringSubmatch(text, -1) {
			all[match[1]] = true
		}
	})
	return all
}
