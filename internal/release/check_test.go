package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/subprocess"

	"github.com/bellwether-k8s/bellwether/internal/proof"
)

const toy = "github.com/example/toy"

// releasable is a repository with two modules and a command.
var releasable = map[string]string{
	"LICENSE":           "free",
	"CHANGELOG.md":      "# Changelog\n\n## v0.2.0 - 2026-11-25\n\n- A.\n",
	"go.mod":            "module " + toy + "\n\ngo 1.26.0\n",
	"toy.go":            "package toy\n\nfunc Play() {}\n",
	"cmd/toy/main.go":   "package main\n\nfunc main() {}\n",
	"go.work":           "go 1.26.0\n\nuse (\n\t.\n\t./more\n)\n\nreplace " + toy + " v0.2.0 => ./\n",
	"more/go.mod":       "module " + toy + "/more\n\ngo 1.26.0\n\nrequire " + toy + " v0.2.0\n",
	"more/more.go":      "package more\n\nimport \"" + toy + "\"\n\nfunc Play() { toy.Play() }\n",
	"internal/in.go":    "package internal\n",
	"examples/a.go":     "package main\n\nfunc main() {}\n",
	"examples/b/go.mod": "module " + toy + "/examples/b\n\ngo 1.26.0\n",
}

func TestToyCanBeReleased(t *testing.T) {
	t.Parallel()
	dir := commit(t, nil)
	out, err := run(t, dir, "v0.2.0", "")
	require.NoError(t, err)
	for _, line := range []string{
		"API: no release has a tag yet, so there is nothing to compare with",
		"more/go.mod of more/v0.2.0 requires github.com/example/toy v0.2.0",
		"go get github.com/example/toy@v0.2.0: a program that imports all of it compiles (packages: 1)",
		"go install github.com/example/toy/cmd/toy@v0.2.0: ok",
		"go install github.com/example/toy/examples@v0.2.0: ok",
		"go get github.com/example/toy/more@v0.2.0: a program that imports all of it compiles (packages: 1)",
		"  git tag v0.2.0 ",
		"  git tag more/v0.2.0 ",
	} {
		assert.Contains(t, out, line)
	}
	assert.NotContains(t, out, "examples/b")
	assert.Empty(t, git(t, dir, "tag"), "the repository itself gets no tag")
}

func TestWhatIsMissingIsOneLineEach(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string // instead of those of the releasable repository; "" removes
		want  []string
	}{
		"changelog": {
			files: map[string]string{"CHANGELOG.md": "## Unreleased\n\n- A.\n"},
			want: []string{
				`release-check: CHANGELOG.md: what is under "## Unreleased" belongs under "## v0.2.0 - <date>"`,
				`release-check: CHANGELOG.md has no section "## v0.2.0 - <date>"`,
			},
		},
		"no changelog": {
			files: map[string]string{"CHANGELOG.md": ""},
			want:  []string{"release-check: there is no CHANGELOG.md"},
		},
		"requirement of another version": {
			files: map[string]string{"more/go.mod": strings.ReplaceAll(releasable["more/go.mod"], "v0.2.0", "v0.0.0")},
			want: []string{
				"release-check: more/go.mod requires github.com/example/toy v0.0.0, so consumers would get that and " +
					"not v0.2.0",
			},
		},
		"requirement of what is not released": {
			files: map[string]string{
				"more/go.mod": releasable["more/go.mod"] + "\nrequire " + toy + "/examples/b v0.2.0\n",
			},
			want: []string{
				"release-check: more/go.mod requires github.com/example/toy/examples/b, which is not released",
			},
		},
		"replacement of others": {
			files: map[string]string{
				"go.mod": releasable["go.mod"] + "\nreplace github.com/example/other => " +
					"github.com/example/fork v1.0.0\n",
			},
			want: []string{
				"release-check: go.mod replaces github.com/example/other: consumers would get what is replaced, and " +
					"go install refuses the module",
			},
		},
		"replacement of a neighbour": {
			files: map[string]string{"more/go.mod": releasable["more/go.mod"] + "\nreplace " + toy + " => ../\n"},
			want: []string{
				"release-check: more/go.mod replaces github.com/example/toy: consumers would get what is replaced, " +
					"and go install refuses the module",
			},
		},
		"module in another directory": {
			files: map[string]string{
				"more/go.mod":  "module " + toy + "/less\n\ngo 1.26.0\n",
				"more/more.go": "package more\n",
			},
			want: []string{
				"release-check: more/go.mod: the module is github.com/example/toy/less, its directory says " +
					"github.com/example/toy/more",
			},
		},
		"packages": {
			files: map[string]string{"more/more.go": "", "more/internal/in.go": "package internal\n"},
			want:  []string{"release-check: github.com/example/toy/more@v0.2.0 has no package for others"},
		},
		"license": {
			files: map[string]string{"LICENSE": ""},
			want: []string{
				"release-check: github.com/example/toy@v0.2.0 has no LICENSE",
				"release-check: github.com/example/toy/more@v0.2.0 has no LICENSE",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, commit(t, test.files), "v0.2.0", "")
			require.Error(t, err)
			assert.Equal(t, test.want, strings.Split(err.Error(), "\n"))
		})
	}
}

func TestWhatAConsumerCannotCompile(t *testing.T) {
	t.Parallel()
	odd := map[string]string{"more/odd/odd.go": "package odd\n\nvar Odd int = \"\"\n"}
	_, err := run(t, commit(t, odd), "v0.2.0", "")
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "\n")
	assert.Contains(t, err.Error(), "cannot use \"\"")
}

// A command in a module of its own needs no other module to be installed beside it.
func TestCommandOfAnotherModule(t *testing.T) {
	t.Parallel()
	out, err := run(t, commit(t, map[string]string{
		"more/cmd/more/main.go": "package main\n\nimport \"" + toy + "/more\"\n\nfunc main() { more.Play() }\n",
	}), "v0.2.0", "")
	require.NoError(t, err)
	assert.Contains(t, out, "go install github.com/example/toy/more/cmd/more@v0.2.0: ok")
}

func TestUncommittedChanges(t *testing.T) {
	t.Parallel()
	dir := commit(t, nil)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "toy.go"), []byte("package toy\n"), 0o600))
	_, err := run(t, dir, "v0.2.0", "")
	assert.EqualError(t, err, "release-check: the working tree has changes that are not committed")
}

func TestTagThatExists(t *testing.T) {
	t.Parallel()
	dir := commit(t, nil)
	git(t, dir, "tag", "more/v0.2.0")
	_, err := run(t, dir, "v0.2.0", "")
	assert.EqualError(t, err, "release-check: the tag more/v0.2.0 exists")
}

func TestWrongVersion(t *testing.T) {
	t.Parallel()
	_, err := run(t, commit(t, nil), "0.2.0", "")
	assert.EqualError(t, err, `release-check: VERSION: "0.2.0" is not a version such as v0.2.0`)
}

// The program that compares is one for each outcome here.
func TestAPIDiffDecidesAboutTheVersion(t *testing.T) {
	for name, test := range map[string]struct {
		all, incompatible string
		last              string
		want              string
	}{
		"nothing":              {last: "v0.1.9"},
		"additions":            {all: "Compatible changes:\n- Play: added", last: "v0.1.9"},
		"break, minor version": {all: "- Play: removed", incompatible: "- Play: removed", last: "v0.1.9"},
		"break, patch version": {
			all: "- Play: removed", incompatible: "- Play: removed", last: "v0.2.0",
			want: "v0.2.1 is too low: with incompatible changes of the API since v0.2.0 it is at least v0.3.0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			last, err := parseVersion(test.last)
			require.NoError(t, err)
			next := least(last, unchanged)
			if test.want == "" {
				next = least(last, broken)
			}
			dir := commit(t, nil)
			git(t, dir, "tag", test.last)
			git(t, dir, "tag", "more/"+test.last)
			apidiff := filepath.Join(t.TempDir(), "apidiff")
			script := "#!/bin/sh\ncase \"$*\" in\n*-w*) ;;\n*-incompatible*) echo '" + test.incompatible + "' ;;\n" +
				"*) echo '" + test.all + "' ;;\nesac\n"
			subprocess.WriteProgram(t, apidiff, script)
			out, wrong := compare(t, dir, next, apidiff)
			assert.Equal(t, test.want, wrong)
			for line := range strings.Lines(test.all) {
				assert.Contains(t, out, "  "+strings.TrimSpace(line)+"\n")
			}
			assert.Contains(t, out, "API: github.com/example/toy/more has ")
		})
	}
}

func TestModulesThatComeAndGo(t *testing.T) {
	t.Parallel()
	dir := commit(t, nil)
	for _, tag := range []string{"v0.1.9", "less/v0.1.9"} {
		git(t, dir, "tag", tag)
	}
	apidiff := filepath.Join(t.TempDir(), "apidiff")
	subprocess.WriteProgram(t, apidiff, "#!/bin/sh\n")
	out, wrong := compare(t, dir, version{0, 2, 0}, apidiff)
	assert.Empty(t, wrong)
	assert.Contains(t, out, "API: github.com/example/toy/more is new since v0.1.9\n")
	assert.Contains(t, out, "API: the module of less/v0.1.9 is gone\n")
	_, wrong = compare(t, dir, version{0, 1, 10}, apidiff)
	assert.Contains(t, wrong, "v0.1.10 is too low")
}

// compare checks only what follows from the last release.
func compare(t *testing.T, dir string, next version, apidiff string) (out, wrong string) {
	t.Helper()
	r, err := clone(t.Context(), dir, t.TempDir())
	require.NoError(t, err)
	modules, err := readModules(t.Context(), r.tree)
	require.NoError(t, err)
	var printed strings.Builder
	missing := r.checkAPI(t.Context(), &printed, apidiff, modules, next)
	return printed.String(), strings.Join(texts(missing), "\n")
}

func run(t *testing.T, dir, next, apidiff string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := check(t.Context(), &out, dir, next, apidiff)
	return out.String(), err
}

// commit makes a repository. A file without a text is left out.
func commit(t *testing.T, instead map[string]string) string {
	t.Helper()
	proof.Build(t)
	dir := t.TempDir()
	files := maps.Clone(releasable)
	maps.Copy(files, instead)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if files[name] == "" {
			continue
		}
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(files[name]), 0o600))
	}
	git(t, dir, "init", "--quiet")
	git(t, dir, "add", ".")
	git(t, dir, "-c", "user.name=toy", "-c", "user.email=toy@example.com", "-c", "commit.gpgSign=false",
		"-c", "core.hooksPath=/nonexistent", "commit", "--quiet", "-m", "toy")
	return dir
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := command{dir: dir}.run(t.Context(), "git", args...)
	require.NoError(t, err)
	return out
}
