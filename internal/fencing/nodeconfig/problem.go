package nodeconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

var (
	// ErrUnread is matched by an error if an agent or a Secret could not be read. The configuration
	// may be correct, so an earlier result from the same objects is still valid.
	ErrUnread = errors.New("config: an agent or a Secret could not be read")
	// ErrNotConfigured is matched by an error if there is no ConfigMap for the node, and none for the
	// built-in configuration.
	ErrNotConfigured = errors.New("config: there is no ConfigMap for the node, and no " + cloudTemplate)
)

// place is a position in a configuration. key is the data key of the ConfigMap, and line the line in
// it, from 1. Both may be missing.
type place struct {
	object, key string
	line        int
}

// problem is an error or a warning about a configuration: "object/key:line: rule (got value)". The
// rule is for users. The value is never a password.
type problem struct {
	text  string
	cause error // ErrUnread, ErrNotConfigured or nil
}

func (p problem) Error() string { return p.text }

func (p problem) Unwrap() error { return p.cause }

// maxShown is the maximum length of a value in an error.
const maxShown = 80

func (p place) problem(cause error, rule, value string) problem {
	text := p.object
	if p.key != "" {
		text += "/" + p.key
	}
	if p.line > 0 {
		text += fmt.Sprintf(":%d", p.line)
	}
	text += ": " + rule
	switch {
	case utf8.RuneCountInString(value) > maxShown:
		text += fmt.Sprintf(" (got %.*q...)", maxShown, value)
	case value != "":
		text += fmt.Sprintf(" (got %q)", value)
	}
	return problem{text, cause}
}

// oneLine returns the text of an error in one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// unique returns the errors without repetitions.
func unique(errs []error) []error {
	var first []error
	seen := map[error]bool{}
	for _, err := range errs {
		if !seen[err] {
			seen[err] = true
			first = append(first, err)
		}
	}
	return first
}

// nearest adds the most similar known name to a rule, if there is one.
func nearest(rule, name string, known []string) string {
	best, distance := "", len(name)/3+2
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := edits(name, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return rule
	}
	return fmt.Sprintf("%s; did you mean %s?", rule, best)
}

// edits returns the number of bytes to change, add or remove to turn a into b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
