package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// banned are words and phrases that make sentences hard to read. CONTRIBUTING.md has the rules. The
// words of a phrase may be on two lines of a comment.
var banned = regexp.MustCompile(`\b(?i:(anew|(?-i:[Nn]obody)|whoever|(?:is|are)` + gap + `told|` +
	`the` + gap + `own|in` + gap + `vain|` +
	`to` + gap + `and` + gap + `fro|of` + gap + `which))\b`)

const gap = `(?:\s|//)+`

// allowed are the files in which banned words may occur, with the words.
var allowed = map[string][]string{
	"docs/words_test.go": {
		"anew", "nobody", "whoever", "is told", "are told", "the own", "in vain", "to and fro",
		"of which",
	},
}

// The code and the documentation are in plain English.
func TestBannedWordsDoNotOccur(t *testing.T) {
	files := 0
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); len(name) > 2 && strings.HasPrefix(name, ".") { // .git and the like
				return fs.SkipDir
			}
			return nil
		}
		if suffix := filepath.Ext(path); suffix != ".go" && suffix != ".md" ||
			strings.HasPrefix(d.Name(), "zz_generated") {
			return nil
		}
		files++
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		path = filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		for _, f := range findBanned(string(content)) {
			if !slices.Contains(allowed[path], f.phrase) {
				t.Errorf("%s:%d: %q", path, f.line, f.phrase)
			}
		}
		return nil
	}))
	assert.Greater(t, files, 500, "the whole repository")
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
