// Package mutation builds the code with one piece replaced. A test has to fail on each such build.
package mutation

import (
	"cmp"
	"encoding/json"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pattern matches code however its lines are broken, so white space between two tokens may be
// missing, and a comma may end a list. White space around the code is not matched.
func pattern(code string) *regexp.Regexp {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(code))
	s.Init(file, []byte(code), func(token.Position, string) {}, scanner.ScanComments)
	expression := ""
	for end := 0; ; {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return regexp.MustCompile(expression)
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue
		}
		text := cmp.Or(literal, tok.String())
		switch at := file.Offset(pos); {
		case end == 0:
		case tok == token.RPAREN || tok == token.RBRACE:
			expression = strings.TrimSuffix(expression, ",") + `,?\s*`
		case at > end && isWord(code[end-1]) && isWord(code[at]):
			expression += `\s+`
		default:
			expression += `\s*`
		}
		expression += regexp.QuoteMeta(text)
		end = file.Offset(pos) + len(text)
	}
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// Split returns what a file has before and after a piece of code. If the file does not contain old
// exactly once, the test fails, because the code has changed and the mutation has to follow.
func Split(t testing.TB, path, old string) (before, after []byte) {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := pattern(old).FindAllIndex(source, 2)
	if len(found) != 1 {
		t.Fatalf("%s must contain this once, and contains it %d times: %s", path, len(found), old)
	}
	return source[:found[0][0]], source[found[0][1]:]
}

// Overlay returns the path of a file for -overlay of the go command. The build then takes the file
// at an absolute path with old replaced, see [Split].
func Overlay(t testing.TB, path, old, replacement string) string {
	t.Helper()
	before, after := Split(t, path, old)
	directory := t.TempDir()
	changed, overlay := filepath.Join(directory, filepath.Base(path)), filepath.Join(directory, "overlay.json")
	content, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	mutated := slices.Concat(before, []byte(replacement), after)
	for name, data := range map[string][]byte{changed: mutated, overlay: content} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}
