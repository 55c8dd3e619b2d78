package image

import (
	"errors"
	"flag"
	"fmt"
	"time"
)

// ParseSource parses the command line of a program that builds a Source into a directory.
func ParseSource() (from Source, output string, err error) {
	flag.StringVar(&from.Root, "root", "../..", "root of the repository")
	flag.StringVar(&from.Version, "version", "", "version that is built, such as v0.1.0; empty: no release")
	flag.StringVar(&from.Revision, "revision", "", "commit that is built")
	created := flag.String("created", "", "time of the commit, as in RFC 3339")
	flag.StringVar(&output, "output", "", "directory to write to")
	flag.Parse()
	if output == "" || from.Revision == "" || flag.NArg() > 0 {
		return from, output, errors.New("-output and -revision must be set, and there are no other arguments")
	}
	if from.Created, err = time.Parse(time.RFC3339, *created); err != nil {
		return from, output, fmt.Errorf("-created: %w", err)
	}
	from.Created = from.Created.UTC()
	return from, output, nil
}
