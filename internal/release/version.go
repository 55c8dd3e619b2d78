package main

import (
	"cmp"
	"fmt"
	"strings"
)

// version is a release. Pre-releases are not made.
type version struct{ major, minor, patch int }

func parseVersion(text string) (version, error) {
	var v version
	_, err := fmt.Sscanf(text, "v%d.%d.%d", &v.major, &v.minor, &v.patch)
	if err != nil || v.String() != text || strings.Contains(text, "-") {
		return version{}, fmt.Errorf("%q is not a version such as v0.2.0", text)
	}
	return v, nil
}

func (v version) String() string { return fmt.Sprintf("v%d.%d.%d", v.major, v.minor, v.patch) }

func (v version) compare(w version) int {
	return cmp.Or(cmp.Compare(v.major, w.major), cmp.Compare(v.minor, w.minor), cmp.Compare(v.patch, w.patch))
}

// change is how much of the API differs from the last release.
type change int

const (
	unchanged change = iota
	added
	broken
)

func (c change) String() string {
	return [...]string{"an unchanged API", "additions to the API", "incompatible changes of the API"}[c]
}

// least returns the lowest version that may follow the last one. Before v1.0.0 a minor version may
// break programs that compile against it.
func least(last version, c change) version {
	switch {
	case c == broken && last.major > 0:
		return version{last.major + 1, 0, 0}
	case c == broken, c == added && last.major > 0:
		return version{last.major, last.minor + 1, 0}
	default:
		return version{last.major, last.minor, last.patch + 1}
	}
}

func checkVersion(next, last version, c change) error {
	if lowest := least(last, c); next.compare(lowest) < 0 {
		return fmt.Errorf("%s is too low: with %s since %s it is at least %s", next, c, last, lowest)
	}
	return nil
}
