package main

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"
)

// module is what others may import or install: a directory with a go.mod, from the root of the repository.
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

// readModules returns the released modules of a working tree, the root first: those that its go.work uses.
func readModules(ctx context.Context, tree string) ([]module, error) {
	listed, err := command{dir: tree}.run(ctx, "go", "work", "edit", "-json", "go.work")
	if err != nil {
		return nil, err
	}
	var work struct{ Use []struct{ DiskPath string } }
	if err := json.Unmarshal([]byte(listed), &work); err != nil {
		return nil, err
	}
	var all []module
	for _, use := range work.Use {
		m := module{dir: path.Clean(use.DiskPath)}
		parsed, err := command{dir: tree}.run(ctx, "go", "mod", "edit", "-json", m.file())
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(parsed), &m.mod); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.mod.Module.Path, b.mod.Module.Path) })
	if len(all) == 0 || all[0].dir != "." {
		return nil, errors.New("go.work does not use the module in the root")
	}
	return all, nil
}

// isPublic reports whether others may import a package, or install it.
func isPublic(path string) bool { return !slices.Contains(strings.Split(path, "/"), "internal") }

// tag is what the go command looks for when it resolves a version of the module.
func (m module) tag(v version) string { return path.Join(m.dir, v.String()) }

func (m module) file() string { return path.Join(m.dir, "go.mod") }

// requirements are the versions of the repository's modules that a consumer of this one gets.
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
			missing.addf("%s replaces %s: consumers would get what is replaced, and go install refuses the module",
				m.file(), r.Old.Path)
		}
	}
	return missing
}
