package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// consumer is a program outside the repository that gets its modules by version.
type consumer struct {
	command
	bin string // where go install puts programs
}

// newConsumer makes a module without requirements. It fetches the modules of the repository from
// the bare clone with git, as it would from their host. Other modules come from the user's module
// cache, or from where the user gets them, with the sums of go.sum. A separate cache keeps what is
// not released out of the user's cache.
func (r *repository) newConsumer(ctx context.Context, m module, root string) (*consumer, error) {
	settings, err := command{}.run(ctx, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, proxy, _ := strings.Cut(settings, "\n")
	dir, bin := filepath.Join(r.work, "consumer", m.dir), filepath.Join(r.work, "bin")
	sums, err := os.ReadFile(filepath.Join(r.tree, m.dir, "go.sum"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	c := &consumer{bin: bin, command: command{dir: dir, env: []string{
		"GOMODCACHE=" + filepath.Join(r.work, "cache"),
		"GOPROXY=file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download")) + "," + proxy,
		"GONOPROXY=" + root,
		"GONOSUMDB=" + root,
		"GOFLAGS=-mod=mod -modcacherw -trimpath '-ldflags=-s -w'",
		"GOWORK=off",
		"GOBIN=" + bin,
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url.file://" + filepath.ToSlash(r.dir) + ".insteadOf",
		"GIT_CONFIG_VALUE_0=https://" + root,
	}}}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if _, err := c.run(ctx, "go", "mod", "init", "example.com/consumer"); err != nil {
		return nil, err
	}
	return c, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600)
}

// pkg is a line of go list.
type pkg struct{ module, name, path string }

// delivery is what a consumer gets of a module.
type delivery struct{ packages, commands []string }

// prove gets the module by its version, compiles a program that imports all of its packages, and
// installs its commands.
func (c *consumer) prove(ctx context.Context, m module, v version) (delivery, error) {
	var p delivery
	path := m.mod.Module.Path
	if _, err := c.run(ctx, "go", "get", path+"@"+v.String()); err != nil {
		return p, err
	}
	dir, err := c.run(ctx, "go", "list", "-m", "-f", "{{.Dir}}", path)
	if err != nil {
		return p, err
	}
	if _, err := os.Stat(filepath.Join(dir, "LICENSE")); err != nil {
		return p, fmt.Errorf("%s@%s has no LICENSE", path, v)
	}
	listed, err := c.run(ctx, "go", "list", "-f", "{{.Module.Path}} {{.Name}} {{.ImportPath}}", path+"/...")
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(listed) {
		var l pkg
		if _, err := fmt.Sscan(line, &l.module, &l.name, &l.path); err != nil {
			return p, err
		}
		switch below := strings.TrimPrefix(l.path, path); {
		case l.module != path || !isPublic(below):
		case l.name == "main":
			p.commands = append(p.commands, l.path)
		default:
			p.packages = append(p.packages, l.path)
		}
	}
	if len(p.packages)+len(p.commands) == 0 {
		return p, fmt.Errorf("%s@%s has no package for others", path, v)
	}
	program := "package main\n\n"
	for _, imported := range p.packages {
		program += fmt.Sprintf("import _ %q\n", imported)
	}
	main := filepath.Join(c.dir, "main.go")
	if err := os.WriteFile(main, []byte(program+"\nfunc main() {}\n"), 0o600); err != nil {
		return p, err
	}
	if _, err := c.run(ctx, "go", "build", "-o", os.DevNull, main); err != nil {
		return p, err
	}
	for _, command := range p.commands {
		if _, err := c.run(ctx, "go", "install", command+"@"+v.String()); err != nil {
			return p, err
		}
	}
	return p, nil
}
