package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ServerVariable names an environment variable with a version of Kubernetes, such as v1.35.4. The
// control planes of the tests are of that version then, instead of the one in controlplane/go.mod.
// KWOK stays.
const ServerVariable = "BELLWETHER_KUBERNETES"

// moduleOf returns a temporary directory with a module: the programs with another version of Kubernetes,
// and with what that requires.
func moduleOf(ctx context.Context, version, source string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "bellwether-server-"); err != nil {
		return "", err
	}
	requirements, err := requirementsOf(ctx, version, dir)
	if err != nil {
		return dir, fmt.Errorf("%s: %w", ServerVariable, err)
	}
	return dir, errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), requirements, 0o600),
		os.CopyFS(filepath.Join(dir, "cmd"), os.DirFS(filepath.Join(source, "cmd"))),
	)
}

// requirementsOf returns a go.mod with a version of Kubernetes and what that requires. Its own parts are
// modules, too, with versions of their own: v0.35.4 beside v1.35.4.
func requirementsOf(ctx context.Context, version, dir string) ([]byte, error) {
	downloaded, err := goCommand(ctx, dir, []string{"GOWORK=off", "GOFLAGS="}, "mod", "download", "-json",
		"k8s.io/kubernetes@"+version)
	if err != nil {
		return nil, err
	}
	var module struct{ GoMod string }
	if err := json.Unmarshal([]byte(downloaded), &module); err != nil {
		return nil, err
	}
	listed, err := goCommand(ctx, dir, []string{"GOWORK=off"}, "mod", "edit", "-json", module.GoMod)
	if err != nil {
		return nil, err
	}
	var own struct {
		Go      string
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal([]byte(listed), &own); err != nil {
		return nil, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "module server\n\ngo %s\n\nrequire k8s.io/kubernetes %s\n", own.Go, version)
	part := "v0" + strings.TrimPrefix(version, "v1")
	for _, r := range own.Require {
		if strings.HasPrefix(r.Path, "k8s.io/") && r.Version == "v0.0.0" {
			fmt.Fprintf(&text, "replace %s => %s %s\n", r.Path, r.Path, part)
		}
	}
	return []byte(text.String()), nil
}
