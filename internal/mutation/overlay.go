// Package mutation makes builds in which a piece of the code is another: a test that is to catch them has to fail.
package mutation

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Overlay returns the path of a file for -overlay of the go command, by which a build takes the file at an absolute path with the only old in it
// replaced. A file that does not contain old once fails the test: where the code looks otherwise now, the mutation has to, too.
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
