package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// repository is a bare clone of a committed tree, in which tags may be made, with working trees.
type repository struct {
	command
	work   string // where its working trees are
	commit string
	tree   string // the working tree of the commit
}

func clone(ctx context.Context, from, to string) (*repository, error) {
	commit, err := command{dir: from}.run(ctx, "git", "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	bare := filepath.Join(to, "clone.git")
	if _, err := (command{dir: from}).run(ctx, "git", "clone", "--quiet", "--bare", ".", bare); err != nil {
		return nil, err
	}
	r := &repository{command: command{dir: bare}, work: to, commit: commit}
	r.tree, err = r.checkOut(ctx, commit)
	return r, err
}

// checkOut makes a working tree of a commit or tag.
func (r *repository) checkOut(ctx context.Context, what string) (string, error) {
	dir := filepath.Join(r.work, "tree-"+strings.ReplaceAll(what, "/", "-"))
	_, err := r.run(ctx, "git", "worktree", "add", "--quiet", "--detach", dir, what)
	return dir, err
}

// lastRelease is the highest version that has a tag of the root module, and false without one.
func (r *repository) lastRelease(ctx context.Context) (version, bool, error) {
	tags, err := r.run(ctx, "git", "tag", "--list", "v*")
	if err != nil {
		return version{}, false, err
	}
	var last version
	found := false
	for tag := range strings.Lines(tags) {
		if v, err := parseVersion(strings.TrimSpace(tag)); err == nil && (!found || v.compare(last) > 0) {
			last, found = v, true
		}
	}
	return last, found, nil
}

// apiDiff compares the API of a module with that of its last release, and returns "" without changes.
func (r *repository) apiDiff(ctx context.Context, apidiff string, m module, last version) (string, change, error) {
	before, err := r.checkOut(ctx, m.tag(last))
	if err != nil {
		return "", unchanged, err
	}
	exported := filepath.Join(r.work, "exported")
	name := m.mod.Module.Path
	then := command{dir: filepath.Join(before, m.dir)}
	if _, err := then.run(ctx, apidiff, "-m", "-w", exported, name); err != nil {
		return "", unchanged, err
	}
	now := command{dir: filepath.Join(r.tree, m.dir)}
	all, err := now.run(ctx, apidiff, "-m", exported, name)
	if err != nil || all == "" {
		return "", unchanged, err
	}
	incompatible, err := now.run(ctx, apidiff, "-m", "-incompatible", exported, name)
	if incompatible != "" {
		return all, broken, err
	}
	return all, added, err
}

// goneSince returns the tags of a release whose modules are no longer there.
func (r *repository) goneSince(ctx context.Context, all []module, last version) ([]string, error) {
	tags, err := r.run(ctx, "git", "tag", "--list", "*/"+last.String())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Fields(tags), func(tag string) bool {
		return slices.ContainsFunc(all, func(m module) bool { return m.tag(last) == tag })
	}), nil
}

// isTagged reports whether the tag of a module exists.
func (r *repository) isTagged(ctx context.Context, tag string) bool {
	_, err := r.run(ctx, "git", "rev-parse", "--verify", "--quiet", "refs/tags/"+tag)
	return err == nil
}

func (r *repository) changelog() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.tree, "CHANGELOG.md"))
	return string(text), err
}
