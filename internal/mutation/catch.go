package mutation

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/proof"
)

// Mutation is a plausible mistake: a change of a line by a person who does not know its reason.
type Mutation struct {
	// Name describes what the change breaks.
	Name string
	// File of the package contains Old once. New replaces it.
	File, Old, New string
	// Caught is the test of the package that has to fail then.
	Caught string
}

// share is the number of mutations per mutation that is tried, unless all are tried.
const share = 4

// Catch fails for every mutation that its test does not catch. The flags are for that test. Because
// each mutation takes a build, Catch tries only every fourth unless the run is a soak. Unless mutations
// are asked for (see package proof), it only checks that Old occurs, and skips the test.
func Catch(t *testing.T, mutations []Mutation, flags ...string) {
	t.Helper()
	for _, m := range mutations {
		Split(t, m.File, m.Old)
	}
	proof.Mutation(t)
	all := proof.Soaking()
	if !all {
		t.Logf("one in %d of %d mutations is tried; a soak tries all", share, len(mutations))
	}
	for i, m := range mutations {
		if i%share != 0 && !all {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			path, err := filepath.Abs(m.File)
			if err != nil {
				t.Fatal(err)
			}
			m.catch(t, Overlay(t, path, m.Old, m.New), flags)
		})
	}
}

func (m Mutation) catch(t *testing.T, overlay string, flags []string) {
	binary := filepath.Join(t.TempDir(), "test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay",
		overlay, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), binary, append([]string{"-test.run", "^" + m.Caught + "$"}, flags...)...)
	run.Env = proof.OfMutant()
	out, err := run.CombinedOutput()
	var failed *exec.ExitError
	if !errors.As(err, &failed) || !strings.Contains(string(out), "--- FAIL: "+m.Caught) {
		t.Fatalf("not caught by %s: %v\n%s", m.Caught, err, out)
	}
}
