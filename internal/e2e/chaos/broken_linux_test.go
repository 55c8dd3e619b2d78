package chaos_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// breaking is a change that breaks a guarantee of the library: a file below the directory of
// package sharder, and a replacement in it.
type breaking struct{ file, old, new string }

var breakings = map[string]breaking{
	"acknowledges without waiting for work": {"internal/protocol/handover.go", `
		case h.AtWork || h.Pending:
			return AwaitWork
`, "\n"},
	"does not check the record in Do": {"shard/admission.go", `
	case a.caches.assignment != protocol.AssignedHere:
		return ErrNotMine
`, "\n"},
}

// TestBrokenBuildsAreCaught has builds of the library that break its promise go through the same,
// until a referee sees it. What they are replaced in has to be found: if the code looks otherwise
// now, this test has to, too.
func TestBrokenBuildsAreCaught(t *testing.T) {
	t.Parallel()
	for name, b := range breakings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, plan{
				replicas: 3, objects: 100, rest: 10 * time.Second, rate: 120, slowness: 3,
				faults: []e2e.Fault{e2e.Renaming}, build: []string{"-overlay=" + b.overlay(t)},
			}, seed(t))
			stopReading := c.read()
			began := time.Now()
			for _, r := range c.replicas {
				r.start(e2e.NewName)
			}
			c.users.populate(t.Context(), c.plan.objects)
			// or until it is caught: after seconds or a minute, as chance and the machine will have
			// it
			c.torment(5 * time.Minute)
			c.kill()
			stopReading()
			breaches, err := c.judge.conclude()
			require.NoError(t, err)
			require.NotEmpty(t, breaches, "not caught: %s", c.report())
			t.Logf("caught after %v: %s", time.Since(began).Round(100*time.Millisecond), breaches[0].text)
		})
	}
}

// kill ends all replicas.
func (c *cluster) kill() {
	for _, r := range c.replicas {
		assert.NoError(c.t, r.Process.Kill())
		r.watched.Wait()
	}
}

// overlay writes the change as the go command takes it, and returns the path of that.
func (b breaking) overlay(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}",
		"github.com/bellwether-k8s/bellwether/sharder").Output()
	require.NoError(t, err)
	return mutation.Overlay(t, filepath.Join(strings.TrimSpace(string(out)), b.file), b.old, b.new)
}
