package docscheck_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// banned are words and phrases that make sentences hard to read. CONTRIBUTING.md has the rules. The
// words of a phrase may be on two lines of a comment.
var banned = regexp.MustCompile(`\b(?i:(anew|(?-i:[Nn]obody)|whoever|(?:is|are)` + gap + `told|` +
	`the` + gap + `own|in` + gap + `vain|` +
	`to` + gap + `and` + gap + `fro|of` + gap + `which))\b`)

const gap = `(?:\s|//)+`

// allowed are the files in which banned words may occur, with the words.
var allowed = map[string][]string{
	"internal/docscheck/words_test.go": {
		"anew", "nobody", "whoever", "is told", "are told", "the own", "in vain", "to and fro",
		"of which",
	},
}

// The code and the documentation are in plain English.
func TestBannedWordsDoNotOccur(t *testing.T) {
	seen := 0
	for _, suffix := range []string{".go", ".md"} {
		files(t, ".", suffix, func(path, text string) {
			if strings.HasPrefix(filepath.Base(path), "zz_generated") {
				return
			}
			seen++
			for _, f := range findBanned(text) {
				if !slices.Contains(allowed[path], f.phrase) {
					t.Errorf("%s:%d: %q", path, f.line, f.phrase)
				}
			}
		})
	}
	assert.Greater(t, seen, 500, "the whole repository")
}

func TestFindBanned(t *testing.T) {
	assert.Equal(t, []found{{1, "nobody"}, {3, "of which"}, {6, "to and fro"}},
		findBanned("// Nobody acts.\n//\n//\tthe shards, of\n//\twhich one\n\n// objects go to and\n// fro, owned by "+
			"errNobody, the owner, and NobodyLeads"))
}

// found is a banned phrase, in lower case, and the line where it begins.
type found struct {
	line   int
	phrase string
}

func findBanned(text string) []found {
	var all []found
	for _, at := range banned.FindAllStringIndex(text, -1) {
		words := strings.Fields(strings.ReplaceAll(text[at[0]:at[1]], "//", " "))
		all = append(all, found{1 + strings.Count(text[:at[0]], "\n"), strings.ToLower(strings.Join(words, " "))})
	}
	return all
}
