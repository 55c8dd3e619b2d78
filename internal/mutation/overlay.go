// Package mutation builds the code with one piece replaced. A test has to fail on each such build.
package mutation

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Overlay returns the path of a file for -overlay of the go command. The build then takes the file at an
// absolute path with old replaced. If the file does not contain old exactly once, the test fails: the
// code has changed, and the mutation has to follow.
func Overlay(t testing.TB, path, old, replacement string) string {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), old); n != 1 {
		t.Fatalf("%s contains this %d times, and has to once: %s", path, n, old)
	}
	directory := t.TempDir()
	changed, overlay := filepath.Join(directory, filepath.Base(path)), filepath.Join(directory, "overlay.json")
	content, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	mutated := strings.Replace(string(source), old, replacement, 1)
	for name, data := range map[string][]byte{changed: []byte(mutated), overlay: content} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}
