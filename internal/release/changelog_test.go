package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestChangelogHasTheSectionOfTheVersion(t *testing.T) {
	const rest = "\n## v0.1.0 - 2026-11-22\n\nThe first.\n"
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"as it is for a release": {text: "# Changelog\n\n## v0.2.0 - 2026-11-25\n\n### Added\n\n- A.\n" + rest},
		"an empty Unreleased":    {text: "## Unreleased\n\n## v0.2.0 - 2026-11-25\n\n- A.\n" + rest},
		"not dated yet": {
			text: "## Unreleased\n\n### Added\n\n- A.\n" + rest,
			want: []string{
				`CHANGELOG.md: what is under "## Unreleased" belongs under "## v0.2.0 - <date>"`,
				`CHANGELOG.md has no section "## v0.2.0 - <date>"`,
			},
		},
		"left behind": {
			text: "## v0.2.0 - 2026-11-25\n\n- A.\n\n## Unreleased\n\n- B.\n",
			want: []string{`CHANGELOG.md: what is under "## Unreleased" belongs under "## v0.2.0 - <date>"`},
		},
		"no date": {
			text: "## v0.2.0\n\n- A.\n" + rest,
			want: []string{`CHANGELOG.md: "v0.2.0" needs a date: "## v0.2.0 - 2006-01-02"`},
		},
		"no day of a calendar": {
			text: "## v0.2.0 - 2026-11-31\n\n- A.\n" + rest,
			want: []string{`CHANGELOG.md: "v0.2.0 - 2026-11-31" needs a date: "## v0.2.0 - 2006-01-02"`},
		},
		"nothing in it": {
			text: "## v0.2.0 - 2026-11-25\n" + rest,
			want: []string{"CHANGELOG.md: the section of v0.2.0 is empty"},
		},
		"below an older one": {
			text: rest + "\n## v0.2.0 - 2026-11-25\n\n- A.\n",
			want: []string{"CHANGELOG.md: the section of v0.2.0 is not the first"},
		},
		"another version": {text: rest, want: []string{`CHANGELOG.md has no section "## v0.2.0 - <date>"`}},
	} {
		assert.Equal(t, test.want, texts(checkChangelog(test.text, version{0, 2, 0})), name)
	}
}

func texts(all []error) []string {
	var of []string
	for _, err := range all {
		of = append(of, err.Error())
	}
	return of
}
