package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrNoHistory is returned by [ControlPlane.EarlierProgram] where the sources are not a git clone
// that has the commit: they were exported, or the clone is shallow.
var ErrNoHistory = errors.New("the sources are not a git clone with that commit")

// EarlierProgram builds the main package in a directory of the repository, as it was at a commit,
// and returns the path of the program. Flags are flags of `go build`.
func (c *ControlPlane) EarlierProgram(ctx context.Context, commit, directory string, flags ...string) (string, error) {
	if err := exec.CommandContext(ctx, "git", "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		return "", fmt.Errorf("e2e: %w: %s (%w)", ErrNoHistory, commit, err)
	}
	root, err := os.MkdirTemp(c.Dir, "earlier-")
	if err != nil {
		return "", fmt.Errorf("e2e: %w", err)
	}
	top, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("e2e: %w", err)
	}
	archive := exec.CommandContext(ctx, "git", "archive", "--format=tar", commit)
	archive.Dir = string(bytes.TrimSpace(top))
	sources, err := archive.Output()
	if err != nil {
		return "", fmt.Errorf("e2e: read the sources of %s: %w", commit, err)
	}
	if err := unpack(bytes.NewReader(sources), root); err != nil {
		return "", fmt.Errorf("e2e: unpack the sources of %s: %w", commit, err)
	}
	program := filepath.Join(root, "program")
	arguments := append(append([]string{"build"}, flags...), "-buildvcs=false", "-o", program, ".")
	if _, err := goCommand(ctx, filepath.Join(root, directory), nil, arguments...); err != nil {
		return "", fmt.Errorf("e2e: build %s of %s: %w", directory, commit, err)
	}
	return program, nil
}

// unpack writes the files of an archive that git has made.
func unpack(archive io.Reader, root string) error {
	files := tar.NewReader(archive)
	for {
		file, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(root, filepath.Clean("/"+file.Name))
		switch file.Typeflag {
		case tar.TypeDir:
			if err := os.MkdirAll(path, 0o755); err != nil {
				return err
			}
		case tar.TypeReg:
			content, err := io.ReadAll(files)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				return err
			}
		}
	}
}
