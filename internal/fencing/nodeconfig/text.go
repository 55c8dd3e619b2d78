package nodeconfig

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLine is the maximum length of a line in bytes, also on the standard input of an agent.
const maxLine = 4096

// Entry is a line key=value.
type Entry struct {
	// Key is in lower case and with "_" for "-", for comparisons.
	Key string
	// Name is the key as written.
	Name string
	// Value is without quotes.
	Value string
	// Quoted is set if Value was in quotes, so that an empty one is intended.
	Quoted bool
	// Line is the number of the line, from 1.
	Line int
}

// Parse parses a text by the grammar in the package documentation. object and key are for errors,
// which are joined. Valid entries are returned even then.
func Parse(object, key, text string) ([]Entry, error) {
	var found review
	entries := found.parse(place{object: object, key: key}, text)
	return entries, found.err()
}

func (r *review) parse(at place, text string) []Entry {
	var entries []Entry
	seen := map[string]int{}
	for line := range strings.SplitSeq(text, "\n") {
		at.line++
		entry, ok := r.parseLine(at, strings.TrimSuffix(line, "\r"))
		if !ok {
			continue
		}
		if first, duplicate := seen[entry.Key]; duplicate {
			r.problem(at, fmt.Sprintf("key must be given once, and is in line %d already", first),
				entry.Name)
			continue
		}
		seen[entry.Key] = at.line
		entries = append(entries, entry)
	}
	return entries
}

// parseLine returns false for a line without an entry. No error shows what might be a part of a
// password.
func (r *review) parseLine(at place, line string) (Entry, bool) {
	if len(line) > maxLine {
		r.problem(at, fmt.Sprintf("line must have at most %d bytes", maxLine),
			fmt.Sprintf("%d bytes", len(line)))
		return Entry{}, false
	}
	if flaw := badText(line); flaw != "" {
		r.problem(at, "line must be plain UTF-8 text", flaw)
		return Entry{}, false
	}
	line = strings.Trim(line, " \t")
	if line == "" || line[0] == '#' {
		return Entry{}, false
	}
	name, value, found := strings.Cut(line, "=")
	if !found {
		r.problem(at, "line must be key=value, a comment or empty",
			fmt.Sprintf("%d bytes without =", len(line)))
		return Entry{}, false
	}
	name, value = strings.TrimRight(name, " \t"), strings.TrimLeft(value, " \t")
	if !validKey(name) {
		r.problem(at, "key must begin with a letter and consist of letters, digits, - _ and .", name)
		return Entry{}, false
	}
	entry := Entry{Key: normal(name), Name: name, Value: value, Line: at.line}
	switch {
	case len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"':
		entry.Value, entry.Quoted = value[1:len(value)-1], true
	case strings.HasSuffix(value, `\`):
		r.problem(at, `value must be in quotes if it ends in \: lines are not continued`,
			printable(entry.Key, value))
		return Entry{}, false
	}
	return entry, true
}

// Format writes entries so that [Parse] and ClusterLabs' fence agents read the same values. If that
// is impossible, it returns an error, because a value with a line break would be another parameter.
func Format(entries []Entry) (string, error) {
	var text strings.Builder
	for _, e := range entries {
		name := e.Name
		if name == "" {
			name = e.Key
		}
		line := name + "=" + quoted(e.Value)
		switch flaw := badText(line); {
		case !validKey(name):
			return "", fmt.Errorf("config: key must begin with a letter and consist of letters, digits, - _ and . "+
				"(got %q)", name)
		case flaw != "":
			return "", fmt.Errorf("config: %s: must be plain UTF-8 text (got %s)", name, flaw)
		case len(line) > maxLine:
			return "", fmt.Errorf("config: %s: must have a line of at most %d bytes (got %d)", name, maxLine, len(line))
		}
		text.WriteString(line)
		text.WriteByte('\n')
	}
	return text.String(), nil
}

// quoted quotes a value that a reader would trim, unquote or continue.
func quoted(value string) string {
	if value == "" || strings.TrimSpace(value) != value || strings.HasSuffix(value, `\`) || value[0] == '"' &&
		value[len(value)-1] == '"' {
		return `"` + value + `"`
	}
	return value
}

// badText describes what must not be in a line or a value, or returns "".
func badText(s string) string {
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			return fmt.Sprintf("invalid UTF-8 at byte %d", i+1)
		case unicode.IsControl(r) && r != '\t':
			return fmt.Sprintf("control character %U at byte %d", r, i+1)
		case r == '\uFEFF':
			return fmt.Sprintf("byte order mark at byte %d", i+1)
		case r == '\u2028' || r == '\u2029':
			return fmt.Sprintf("line separator %U at byte %d", r, i+1)
		}
	}
	return ""
}

func validKey(key string) bool {
	for i, c := range []byte(key) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789_-.", rune(c))) {
			return false
		}
	}
	return key != ""
}

// normal returns the form in which keys, parameters and methods are compared. Names of methods are
// shown with "-", all others with "_".
func normal(key string) string {
	return strings.ReplaceAll(strings.ToLower(key), "-", "_")
}
