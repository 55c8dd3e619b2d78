package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// check writes what it finds to out. Its error has one line for each missing thing.
func check(ctx context.Context, out io.Writer, dir, next, apidiff string) error {
	v, err := parseVersion(next)
	if err != nil {
		return fmt.Errorf("release-check: VERSION: %w", err)
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // a directory for temporary files
	r, err := clone(ctx, dir, work)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "release-check: %s from commit %.12s\n", v, r.commit)
	var missing problems
	if changed, err := (command{dir: dir}).run(ctx, "git", "status", "--porcelain"); err != nil {
		return err
	} else if changed != "" {
		missing.addf("the working tree has changes that are not committed")
	}
	changelog, err := r.changelog()
	if err != nil {
		missing.addf("there is no CHANGELOG.md")
	} else {
		missing = append(missing, checkChangelog(changelog, v)...)
	}
	modules, err := readModules(ctx, r.tree)
	if err != nil {
		return err
	}
	missing = append(missing, r.checkAPI(ctx, out, apidiff, modules, v)...)
	if wrong := checkModules(modules, v); len(wrong) > 0 {
		missing = append(missing, wrong...)
	} else {
		missing = append(missing, r.checkConsumers(ctx, out, modules, v)...)
	}
	for i, p := range missing {
		missing[i] = fmt.Errorf("release-check: %w", p)
	}
	if len(missing) > 0 {
		return errors.Join(missing...)
	}
	_, _ = fmt.Fprintf(out, "release-check: %s can be released. Its tags:\n", v)
	for _, m := range modules {
		_, _ = fmt.Fprintf(out, "  git tag %s %.12s\n", m.tag(v), r.commit)
	}
	return nil
}

func (r *repository) checkAPI(ctx context.Context, out io.Writer, apidiff string, all []module, v version) problems {
	last, found, err := r.lastRelease(ctx)
	if err != nil {
		return problems{err}
	}
	if !found {
		_, _ = fmt.Fprintln(out, "API: no release has a tag yet, so there is nothing to compare with")
		return nil
	}
	worst := unchanged
	for _, m := range all {
		name := m.mod.Module.Path
		if !r.isTagged(ctx, m.tag(last)) {
			_, _ = fmt.Fprintf(out, "API: %s is new since %s\n", name, last)
			worst = max(worst, added)
			continue
		}
		diff, c, err := r.apiDiff(ctx, apidiff, m, last)
		if err != nil {
			return problems{err}
		}
		_, _ = fmt.Fprintf(out, "API: %s has %s since %s\n", name, c, last)
		for line := range strings.Lines(diff) {
			_, _ = fmt.Fprintf(out, "  %s\n", strings.TrimRight(line, "\n"))
		}
		worst = max(worst, c)
	}
	gone, err := r.goneSince(ctx, all, last)
	if err != nil {
		return problems{err}
	}
	for _, tag := range gone {
		_, _ = fmt.Fprintf(out, "API: the module of %s is gone\n", tag)
		worst = broken
	}
	if err := checkVersion(v, last, worst); err != nil {
		return problems{err}
	}
	return nil
}

// checkConsumers tags the clone and gets every module from it by version.
func (r *repository) checkConsumers(ctx context.Context, out io.Writer, all []module, v version) problems {
	var missing problems
	for _, m := range all {
		if r.isTagged(ctx, m.tag(v)) {
			missing.addf("the tag %s exists", m.tag(v))
		} else if _, err := r.run(ctx, "git", "tag", m.tag(v), r.commit); err != nil {
			missing = append(missing, err)
		}
	}
	if len(missing) > 0 {
		return missing
	}
	root := all[0].mod.Module.Path
	for _, m := range all {
		for path, version := range m.requirements(root) {
			_, _ = fmt.Fprintf(out, "%s of %s requires %s %s\n", m.file(), m.tag(v), path, version)
		}
		c, err := r.newConsumer(ctx, m, root)
		if err != nil {
			return append(missing, err)
		}
		p, err := c.prove(ctx, m, v)
		if err != nil {
			missing = append(missing, err)
			continue
		}
		_, _ = fmt.Fprintf(out, "go get %s@%s: a program that imports all of it compiles (packages: %d)\n",
			m.mod.Module.Path, v, len(p.packages))
		for _, command := range p.commands {
			_, _ = fmt.Fprintf(out, "go install %s@%s: ok\n", command, v)
		}
	}
	return missing
}
