package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Between releases, too, the modules of this repository require each other at one version: that of
// the next release, or of the last.
func TestModulesHereRequireOneVersion(t *testing.T) {
	all := modulesHere(t)
	require.Greater(t, len(all), 1)
	root, of := all[0].mod.Module.Path, ""
	for _, m := range all[1:] {
		of = m.requirements(root)[root]
		v, err := parseVersion(of)
		require.NoError(t, err, m.file())
		assert.Empty(t, checkModules(all, v))
	}
}

// RELEASING.md has the tag of each module, in its table and among the commands.
func TestReleasingHasTheTagOfEachModule(t *testing.T) {
	page, err := os.ReadFile("../../RELEASING.md")
	require.NoError(t, err)
	v := version{0, 1, 0}
	for _, m := range modulesHere(t) {
		assert.Contains(t, string(page), "\n| `"+m.mod.Module.Path+"` | `"+m.tag(v)+"` |")
		assert.Contains(t, string(page), "\ngit tag "+m.tag(v)+"\n")
		assert.Regexp(t, "\ngo (get|install) "+m.mod.Module.Path+"@"+v.String()+"\n", string(page))
	}
}

func modulesHere(t *testing.T) []module {
	t.Helper()
	all, err := readModules(t.Context(), "../..")
	require.NoError(t, err)
	return all
}
