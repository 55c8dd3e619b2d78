package nodeconfig_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
)

func TestParse(t *testing.T) {
	entries, err := nodeconfig.Parse("o", "k", strings.Join([]string{
		"# a comment, with = and \" in it",
		"  \t# another",
		"",
		" \t ",
		"key=value",
		"  Key-Two.Secret \t = \ta = b # c\t \r",
		`quoted=" a "`,
		`pairs=""a""`,
		`single='a'`,
		`open="a`,
		`lonely="`,
		`escaped="a\"`,
		`empty=`,
		`meant=""`,
		`path=C:\x`,
		"umlaut=Größe",
	}, "\n"))
	require.NoError(t, err)
	assert.Equal(t, []nodeconfig.Entry{
		{Key: "key", Name: "key", Value: "value", Line: 5},
		{Key: "key_two.secret", Name: "Key-Two.Secret", Value: "a = b # c", Line: 6},
		{Key: "quoted", Name: "quoted", Value: " a ", Quoted: true, Line: 7},
		{Key: "pairs", Name: "pairs", Value: `"a"`, Quoted: true, Line: 8},
		{Key: "single", Name: "single", Value: "'a'", Line: 9},
		{Key: "open", Name: "open", Value: `"a`, Line: 10},
		{Key: "lonely", Name: "lonely", Value: `"`, Line: 11},
		{Key: "escaped", Name: "escaped", Value: `a\`, Quoted: true, Line: 12},
		{Key: "empty", Name: "empty", Line: 13},
		{Key: "meant", Name: "meant", Quoted: true, Line: 14},
		{Key: "path", Name: "path", Value: `C:\x`, Line: 15},
		{Key: "umlaut", Name: "umlaut", Value: "Größe", Line: 16},
	}, entries)
}

func TestParseReturnsWhatIsRightBesidesWhatIsWrong(t *testing.T) {
	entries, err := nodeconfig.Parse("o", "k", "a=1\nb\nc=2\nA=3")
	assert.EqualError(t, err, "o/k:2: line must be key=value, a comment or empty (got \"1 bytes without =\")\n"+
		"o/k:4: key must be given once, and is in line 1 already (got \"A\")")
	assert.Equal(t,
		[]nodeconfig.Entry{{Key: "a", Name: "a", Value: "1", Line: 1}, {Key: "c", Name: "c", Value: "2", Line: 3}},
		entries)
}

func TestLongestLine(t *testing.T) {
	longest := "a=" + strings.Repeat("x", 4094)
	_, err := nodeconfig.Parse("o", "k", longest+"\r")
	require.NoError(t, err)
	_, err = nodeconfig.Parse("o", "k", longest+"x")
	require.Error(t, err)
	_, err = nodeconfig.Format("a", longest[2:])
	require.NoError(t, err)
	_, err = nodeconfig.Format("a", longest[1:])
	assert.EqualError(t, err, "config: a: must have a line of at most 4096 bytes (got 4097)")
}

func TestFormatWritesNothingThatWouldBeReadAsSomethingElse(t *testing.T) {
	for _, value := range []string{
		"a\naction=on", "a\r", "a\x00", "\x1b[2J", "a\u0085b", "a\u2028b", "\ufeffa",
		"\xff",
	} {
		_, err := nodeconfig.Format("plug", value)
		assert.ErrorContains(t, err, "config: plug: must be plain UTF-8 text", "%q", value)
	}
	for _, key := range []string{"", "a b", "a=b", "#a", "a\n", "1a", "ä"} {
		_, err := nodeconfig.Format(key, "a")
		assert.ErrorContains(t, err, "config: key must begin with a letter", "%q", key)
	}
}

// readAsAgent is how the library of ClusterLabs' agents reads its standard input.
func readAsAgent(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimFunc(line, unicode.IsSpace)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, _ := strings.Cut(line, "=")
		values[name] = regexp.MustCompile(`^"(.*)"$`).ReplaceAllString(value, "$1")
	}
	return values
}

func key() *rapid.Generator[string] { return rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9_.]{0,8}`) }

func value() *rapid.Generator[string] {
	odd := rapid.SampledFrom([]rune("\"\\ \t=#'{}äx\u00a0\u3000"))
	plain := rapid.OneOf(rapid.StringOf(odd),
		rapid.StringOfN(rapid.RuneFrom(nil, unicode.L, unicode.Zs, unicode.P), 0, 40, -1))
	return rapid.OneOf(plain, rapid.Map(plain, func(s string) string { return `"` + s + `"` }))
}

func format(entries []nodeconfig.Entry) (string, error) {
	var text strings.Builder
	for _, e := range entries {
		line, err := nodeconfig.Format(e.Name, e.Value)
		if err != nil {
			return "", err
		}
		text.WriteString(line)
	}
	return text.String(), nil
}

func TestWhatIsFormattedIsReadTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []nodeconfig.Entry
		want := map[string]string{}
		for _, k := range rapid.SliceOfDistinct(key(), strings.ToLower).Draw(t, "keys") {
			v := value().Draw(t, "value")
			entries = append(entries, nodeconfig.Entry{Name: k, Key: strings.ToLower(k), Value: v})
			want[k] = v
		}
		text, err := format(entries)
		require.NoError(t, err)
		read, err := nodeconfig.Parse("o", "k", text)
		require.NoError(t, err)
		for i := range read {
			assert.Equal(t, i+1, read[i].Line)
			read[i].Line, read[i].Quoted = 0, false
		}
		if len(entries) > 0 {
			assert.Equal(t, entries, read)
		}
		assert.Equal(t, want, readAsAgent(text))
	})
}

// FuzzParse: what is read without an error can be written, and is then read the same, here and by
// agents.
func FuzzParse(f *testing.F) {
	f.Add("node_name=w1\nisolation=mark-unschedulable\npower_management=a-off a-on\nrecovery=")
	f.Add("a=\"x\\\"\r\n\tb.secret = n/k \n# c\nd=\"\"\"\"")
	f.Add("a=1\nA=2\n=3\nb\n\x00\xff\ufeff")
	f.Add("k=\u00a0\nl=\" \"\nm=\\")
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := nodeconfig.Parse("o", "k", text)
		for _, problem := range parts(err) {
			require.Regexp(t, `^o/k:[1-9]`, problem.Error())
			require.NotContains(t, problem.Error(), "\n")
		}
		seen := map[string]bool{}
		want := map[string]string{}
		for _, e := range entries {
			require.False(t, seen[e.Key], "duplicate")
			seen[e.Key] = true
			require.Equal(t, strings.ReplaceAll(strings.ToLower(e.Name), "-", "_"), e.Key)
			require.NotContains(t, e.Value, "\n")
			want[e.Name] = e.Value
		}
		written, err := format(entries)
		if err != nil {
			require.ErrorContains(t, err, "must have a line of at most 4096 bytes", "quotes may be added")
			return
		}
		again, err := nodeconfig.Parse("o", "k", written)
		require.NoError(t, err)
		require.Len(t, again, len(entries))
		for i, e := range again {
			require.Equal(t, entries[i].Name, e.Name)
			require.Equal(t, entries[i].Value, e.Value)
		}
		require.Equal(t, want, readAsAgent(written))
	})
}
