package walkthrough

import (
	"regexp"
	"slices"
	"strings"
)

// step is a command of the page, and what the page says that it prints.
type step struct {
	command string
	shown   []string
}

// steps are the lines of blocks of code that begin with a prompt, and those below them.
func steps(page string) (all []step) {
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		switch command, prompted := strings.CutPrefix(line, "$ "); {
		case strings.HasPrefix(line, "```"):
			inside = line == "```" && !inside
		case inside && prompted:
			all = append(all, step{command: command})
		case inside && len(all) > 0:
			all[len(all)-1].shown = append(all[len(all)-1].shown, line)
		}
	}
	return all
}

var reading = regexp.MustCompile(`^kubectl (get|bellwether (status|ring|explain)) `)

// reads reports whether the command only reads: what it prints may take a moment to be so.
func (s step) reads() bool {
	return reading.MatchString(s.command)
}

// agrees reports whether the command has printed what the page shows.
func (s step) agrees(printed string) bool {
	return slices.Equal(normalized(strings.Join(s.shown, "\n")), normalized(printed))
}

// Random or measured, so another one in each run.
var (
	pod   = regexp.MustCompile(`\b(example-operator|fencer)-[0-9a-z]{6,10}-[0-9a-z]{5}(_[0-9a-f]{4}…|\b)`)
	age   = regexp.MustCompile(`\b([0-9]+(d|h|ms|m|s))+\b`)
	count = regexp.MustCompile(`\b[0-9]+\b`)
	space = regexp.MustCompile(` +`)
)

// normalized returns lines that are the same in all runs. How many objects each shard has, and which
// of them is the sharder, depends on their names.
func normalized(text string) (lines []string) {
	for line := range strings.Lines(text) {
		line = age.ReplaceAllString(pod.ReplaceAllString(line, "$1-POD"), "AGE")
		if line = strings.TrimSpace(space.ReplaceAllString(line, " ")); line == "" {
			continue
		}
		if strings.HasPrefix(line, "example-operator-POD ") || strings.Contains(line, " Held ") {
			line = count.ReplaceAllString(line, "N")
		}
		lines = append(lines, line)
	}
	return lines
}
