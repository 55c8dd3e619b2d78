package nodeconfig

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLine is the maximum length of a line in bytes, also on the standard input of an agent.
const maxLine = 4096

// entry is a line key=value.
type entry struct {
	at place
	// key is in lower case and with "_" for "-", for comparisons. name is the key as written.
	key, name string
	// value is without quotes. quoted is set if it was in quotes, so that an empty one is intended.
	value  string
	quoted bool
}

// parse parses a text by the grammar in the package documentation. Valid entries are returned even
// if others are wrong.
func parse(at place, text string) (entries []entry, problems []error) {
	lines := map[string]int{}
	for line := range strings.SplitSeq(text, "\n") {
		at.line++
		e, err := parseLine(at, strings.TrimSuffix(line, "\r"))
		first, duplicate := lines[e.key]
		switch {
		case err != nil:
			problems = append(problems, err)
		case e.key == "": // blank, or a comment
		case duplicate:
			problems = append(problems, at.problem(nil, once("key", first), e.name))
		default:
			lines[e.key] = at.line
			entries = append(entries, e)
		}
	}
	return entries, problems
}

func once(what string, first int) string {
	return fmt.Sprintf("%s must be given once, and is in line %d already", what, first)
}

// parseLine returns an entry without a key for a line without an entry. No error shows what might be
// a part of a password.
func parseLine(at place, line string) (entry, error) {
	if len(line) > maxLine {
		return entry{}, at.problem(nil, fmt.Sprintf("line must have at most %d bytes", maxLine),
			fmt.Sprintf("%d bytes", len(line)))
	}
	if flaw := badText(line); flaw != "" {
		return entry{}, at.problem(nil, "line must be plain UTF-8 text", flaw)
	}
	line = strings.Trim(line, " \t")
	if line == "" || line[0] == '#' {
		return entry{}, nil
	}
	name, value, found := strings.Cut(line, "=")
	name, value = strings.TrimRight(name, " \t"), strings.TrimLeft(value, " \t")
	e := entry{at: at, key: normal(name), name: name, value: value}
	switch {
	case !found:
		return entry{}, at.problem(nil, "line must be key=value, a comment or empty",
			fmt.Sprintf("%d bytes without =", len(line)))
	case !validKey.MatchString(name):
		return entry{}, at.problem(nil, keyRule, name)
	case len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"':
		e.value, e.quoted = value[1:len(value)-1], true
	case strings.HasSuffix(value, `\`):
		return entry{}, at.problem(nil, `value must be in quotes if it ends in \: lines are not continued`,
			printable(e.key, value))
	}
	return e, nil
}

// Format writes a line that a configuration and ClusterLabs' fence agents read as the same value. If
// that is impossible, it returns an error, because a value with a line break would be another
// parameter.
func Format(name, value string) (string, error) {
	// A reader would trim, unquote or continue it.
	if value == "" || strings.TrimSpace(value) != value || strings.HasSuffix(value, `\`) ||
		value[0] == '"' && value[len(value)-1] == '"' {
		value = `"` + value + `"`
	}
	line := name + "=" + value
	switch flaw := badText(line); {
	case !validKey.MatchString(name):
		return "", fmt.Errorf("config: %s (got %q)", keyRule, name)
	case flaw != "":
		return "", fmt.Errorf("config: %s: must be plain UTF-8 text (got %s)", name, flaw)
	case len(line) > maxLine:
		return "", fmt.Errorf("config: %s: must have a line of at most %d bytes (got %d)", name, maxLine, len(line))
	}
	return line + "\n", nil
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

var validKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

const keyRule = "key must begin with a letter and consist of letters, digits, - _ and ."

// normal returns the form in which keys, parameters and methods are compared. Names of methods are
// shown with "-", all others with "_".
func normal(key string) string {
	return strings.ReplaceAll(strings.ToLower(key), "-", "_")
}

// methodName returns the form in which names of methods are compared.
func methodName(name string) string {
	return strings.ReplaceAll(normal(name), "_", "-")
}
