package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ServerVariable names an environment variable with a version of Kubernetes, such as v1.35.4. The
// control planes of the tests are of that version then, instead of the one in controlplane/go.mod.
// KWOK stays.
const ServerVariable = "BELLWETHER_KUBERNETES"

// serverOf returns the control plane of another version of Kubernetes, built once.
func serverOf(ctx context.Context, version, source, cache string, progress io.Writer) (string, error) {
	hash, err := sourceHash(source)
	if err != nil {
		return "", fmt.Errorf("e2e: hash the control plane's sources: %w", err)
	}
	dir := filepath.Join(cache, hash+"-"+version)
	return filepath.Join(dir, "controlplane"), once(ctx, dir, progress, func(temporary string) error {
		start := time.Now()
		say(progress, "building etcd and Kubernetes %s once, into %s: about 5 minutes on 2 cores", version, dir)
		if err := buildServer(ctx, version, source, temporary); err != nil {
			return err
		}
		say(progress, "built the control plane in %d s", int(time.Since(start).Seconds()))
		return nil
	})
}

// buildServer compiles the control plane as a module of its own, with what that version of Kubernetes
// requires.
func buildServer(ctx context.Context, version, source, temporary string) error {
	flags, err := linked(version)
	if err != nil {
		return fmt.Errorf("%s: %w", ServerVariable, err)
	}
	module, err := os.MkdirTemp("", "bellwether-server-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(module)
	main, err := os.ReadFile(filepath.Join(source, "cmd", "controlplane", "main.go"))
	if err != nil {
		return err
	}
	requirements, err := requirementsOf(ctx, version, module)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"main.go": main, "go.mod": requirements} {
		if err := os.WriteFile(filepath.Join(module, name), content, 0o600); err != nil {
			return err
		}
	}
	alone := []string{"GOWORK=off", "GOFLAGS=-mod=mod"}
	arguments := slices.Concat([]string{"build"}, buildFlags, []string{flags, "-o", filepath.Join(temporary,
		"controlplane"), "."})
	_, err = goCommand(ctx, module, alone, arguments...)
	return err
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
