package nodeconfig

import "errors"

// Entry is a line key=value of a text.
type Entry struct {
	Key, Name, Value string
	Quoted           bool
	Line             int
}

// Parse parses a text of an object. The error joins the problems.
func Parse(object, key, text string) ([]Entry, error) {
	entries, problems := parse(place{object: object, key: key}, text)
	var all []Entry
	for _, e := range entries {
		all = append(all, Entry{e.key, e.name, e.value, e.quoted, e.at.line})
	}
	return all, errors.Join(problems...)
}
