package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// page is the output of a report.
type page struct{ strings.Builder }

func (p *page) lines() []string { return strings.Split(strings.TrimSuffix(p.String(), "\n"), "\n") }

// requireReadable requires that no line is wider than a terminal, and that all of it is plain text.
func (p *page) requireReadable(t *testing.T) {
	t.Helper()
	for _, line := range p.lines() {
		require.LessOrEqual(t, len([]rune(line)), 80, line)
		require.NotRegexp(t, `[[:cntrl:]]`, line)
	}
}

func TestReportHasNarrowPlainLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which no time passes
		var printed page
		r := report{out: &printed}
		s := stage{report: &r, start: time.Now()}
		long := strings.Repeat("a wörd and \x1b[31manother\x1b[0m, ", 20)
		r.paragraph("%s", long)
		r.hanging(long)
		s.say("db-0", "%s", long)
		s.result(long+"%v", 1234567*time.Microsecond)
		s.sum()
		n, err := r.Write([]byte(long + "\n\r\tand more\n"))
		require.NoError(t, err)
		assert.Equal(t, len(long)+12, n)
		printed.requireReadable(t)
		assert.Contains(t, printed.String(), "\n  0.00 s  db-0  a wörd and")
		assert.Contains(t, printed.String(), "\n                [31manother", "what is said has a column of its own")
		assert.Contains(t, printed.String(), "1.235s")
	})
}

// All chapters print through the report, so its rules hold for them.
func TestNothingIsPrintedButByTheReport(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, _ := selector.X.(*ast.Ident)
			if pkg != nil && pkg.Name == "fmt" {
				assert.NotContains(t, []string{"Print", "Printf", "Println"}, selector.Sel.Name, file)
			}
			if pkg != nil && pkg.Name == "os" && file != "main.go" {
				assert.NotContains(t, []string{"Stdout", "Stderr"}, selector.Sel.Name, file)
			}
			return true
		})
	}
}

func TestTablesFitAtTheirWidest(t *testing.T) {
	const late = 999*time.Second + 990*time.Millisecond
	for name, table := range map[string][]string{
		"sharding":  {header(cast), crowded().row(cast, late)},
		"endpoints": {trafficHeader(servers), busy().row(servers, late)},
		"contents":  strings.Split(contents(), "\n"),
	} {
		for _, row := range table {
			assert.Equal(t, []string{row}, wrap(row, width, width), name)
		}
	}
}

// crowded is a census of more objects than the demo has.
func crowded() *census {
	c := newCensus("r")
	for i := range 9999 {
		c.see(configMap(i, cast[i%len(cast)], true), at(0))
	}
	return c
}

// busy is traffic of more requests than the demo sends.
func busy() *traffic {
	tr := newTraffic(nil, nil)
	tr.known, tr.lost = servers, 9999
	for _, server := range servers {
		tr.counts[server] = 9999
	}
	return tr
}

func TestWrapKeepsAllWords(t *testing.T) {
	words := []string{"a", "be", "the", "a-longer-one", "größer", strings.Repeat("w", 79), strings.Repeat("/path", 30)}
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var text []string
		for range 1 + random.IntN(60) {
			text = append(text, words[random.IntN(len(words))])
		}
		lines := wrap(strings.Join(text, " "), 70, 78)
		assert.Equal(t, text, strings.Fields(strings.Join(lines, " ")))
		for i, line := range lines {
			room := 78
			if i == 0 {
				room = 70
			}
			if columnsOf(line) > room {
				assert.NotContains(t, line, " ", "only what cannot be broken may be wider")
			}
		}
	}
}

func TestColumnsStayIfTheyFit(t *testing.T) {
	row := "  1.50 s       1     1       1"
	assert.Equal(t, []string{row}, wrap(row, 30, 30))
	assert.Equal(t, []string{"1.50 s 1 1", "1"}, wrap(row, 10, 10))
}

func TestSlowStepsAreReportedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var printed page
		r := report{out: &printed}
		err := r.during("Waiting for it", func() error {
			time.Sleep(25 * time.Second)
			return assert.AnError
		})
		assert.Equal(t, assert.AnError, err)
		assert.Equal(t, []string{"Waiting for it.", "  ... still at it, for 10 s", "  ... still at it, for 20 s"},
			printed.lines())
	})
}
