package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Published returns the program of a package of a module that others have published, built as it is,
// with its own dependencies. Empty: the package at the root of the module. It is built once for each
// version of the module and of Go, and kept in bellwether/foreign in the user's cache directory.
// [ErrNotPublished] if the module cannot be had here. progress must not be nil.
func Published(ctx context.Context, progress io.Writer, module, version, pkg string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("e2e: %w", err)
	}
	name := path.Base(path.Join(module, pkg))
	dir := filepath.Join(cache, "bellwether", "foreign", name+"-"+version+"-"+runtime.Version())
	err = once(ctx, dir, progress, func(temporary string) error {
		source, err := PublishedSource(ctx, module, version)
		if err != nil {
			return err
		}
		start := time.Now()
		say(progress, "building %s %s once, into %s: some minutes on 2 cores", name, version, dir)
		arguments := append([]string{"build", "-mod=readonly", "-ldflags=-s -w", "-o", filepath.Join(temporary, name)},
			buildFlags...)
		// Its dependencies are those of its own go.sum.
		environment := append([]string{"GOFLAGS="}, buildEnvironment...)
		_, err = goCommand(ctx, source, environment, append(arguments, "./"+pkg)...)
		if err == nil {
			say(progress, "built it in %d s", int(time.Since(start).Seconds()))
		}
		return err
	})
	return filepath.Join(dir, name), err
}

// ErrNotPublished means that a module cannot be had, as without a network.
var ErrNotPublished = errors.New("the module cannot be downloaded")

// PublishedSource returns the directory of a module that others have published: its sources and manifests.
func PublishedSource(ctx context.Context, module, version string) (string, error) {
	out, err := goCommand(ctx, os.TempDir(), []string{"GOWORK=off", "GOFLAGS="},
		"mod", "download", "-json", module+"@"+version)
	if err != nil {
		return "", fmt.Errorf("%w: %s %s: %w", ErrNotPublished, module, version, err)
	}
	var downloaded struct{ Dir, Error string }
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&downloaded); err != nil || downloaded.Dir == "" {
		return "", fmt.Errorf("%w: %s %s: %w", ErrNotPublished, module, version,
			errors.Join(err, errors.New(downloaded.Error)))
	}
	return downloaded.Dir, nil
}
