package main

import (
	"strings"
	"time"
)

// checkChangelog returns what a changelog lacks for a release. A section begins with a heading of
// the second level.
func checkChangelog(text string, v version) problems {
	var missing problems
	found, latest := false, true
	for _, section := range strings.Split("\n"+text, "\n## ")[1:] {
		heading, content, _ := strings.Cut(section, "\n")
		name, date, _ := strings.Cut(heading, " - ")
		empty := strings.TrimSpace(content) == ""
		switch {
		case name == "Unreleased":
			if !empty {
				missing.addf("CHANGELOG.md: what is under \"## Unreleased\" belongs under \"## %s - <date>\"", v)
			}
			continue
		case name == v.String():
			found = true
			if _, err := time.Parse(time.DateOnly, date); err != nil {
				missing.addf("CHANGELOG.md: %q needs a date: \"## %s - 2006-01-02\"", heading, v)
			}
			if empty {
				missing.addf("CHANGELOG.md: the section of %s is empty", v)
			}
			if !latest {
				missing.addf("CHANGELOG.md: the section of %s is not the first", v)
			}
		}
		latest = false
	}
	if !found {
		missing.addf("CHANGELOG.md has no section \"## %s - <date>\"", v)
	}
	return missing
}
