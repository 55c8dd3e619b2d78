package main

import (
	"path"
	"slices"
	"strings"
)

// module is what other programs may import: a directory with a go.mod, from the root of the repository.
type module struct {
	dir string
	mod goMod
}

// goMod is what go mod edit -json prints of a go.mod.
type goMod struct {
	Module  struct{ Path string }
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

// isReleased reports whether a directory's go.mod is that of a module for others. The plugin of
// kubectl is built from a clone, because go install refuses a module with replace directives.
func isReleased(dir string) bool {
	for _, element := range strings.Split(dir, "/") {
		if slices.Contains([]string{"internal", "examples", "docs", "testdata", "kubectl-bellwether"}, element) {
			return false
		}
	}
	return true
}

// tag is what the go command looks for when it resolves a version of the module.
func (m module) tag(v version) string { return path.Join(m.dir, v.String()) }

func (m module) file() string { return path.Join(m.dir, "go.mod") }

// requirements are the versions of the repository's modules that a consumer of this one gets. The
// go.mod's replace directives count only here, not for consumers.
func (m module) requirements(root string) map[string]string {
	of := map[string]string{}
	for _, r := range m.mod.Require {
		if isBelow(r.Path, root) {
			of[r.Path] = r.Version
		}
	}
	return of
}

func isBelow(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// checkModules returns what in their go.mod would give a consumer something other than what is
// tested here, or nothing.
func checkModules(all []module, v version) problems {
	var missing problems
	root := all[0].mod.Module.Path
	released := map[string]bool{}
	for _, m := range all {
		released[m.mod.Module.Path] = true
		if want := path.Join(root, m.dir); m.mod.Module.Path != want {
			missing.addf("%s: the module is %s, its directory says %s", m.file(), m.mod.Module.Path,
				want)
		}
	}
	for _, m := range all {
		for _, r := range m.mod.Require {
			switch {
			case !isBelow(r.Path, root):
			case !released[r.Path]:
				missing.addf("%s requires %s, which is not released", m.file(), r.Path)
			case r.Version != v.String():
				missing.addf("%s requires %s %s, so consumers would get that and not %s",
					m.file(), r.Path, r.Version, v)
			}
		}
		for _, r := range m.mod.Replace {
			if !released[r.Old.Path] {
				missing.addf("%s replaces %s: consumers would get what is replaced", m.file(), r.Old.Path)
			}
		}
	}
	return missing
}
