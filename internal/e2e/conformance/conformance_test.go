// Package conformance_test runs the conformance table on a real control plane.
package conformance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/apisim/conformance"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

func TestRealServerConforms(t *testing.T) {
	t.Parallel()
	cp := e2e.Start(t, e2e.Options{})
	// An API server caches the history since its start: a new one does not know the beginning.
	require.NoError(t, cp.APIServer.Restart())
	require.NoError(t, cp.Ready(t.Context()))
	namespace, err := cp.Namespace(t.Context(), "conformance")
	require.NoError(t, err)
	clients, err := conformance.NewClients(cp.Admin(), namespace)
	require.NoError(t, err)
	start := time.Now()
	t.Cleanup(func() { t.Logf("%d cases in %s", len(conformance.Cases()), time.Since(start).Round(time.Millisecond)) })
	for _, c := range conformance.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, clients)
		})
	}
}

func TestCasesHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range conformance.Cases() {
		assert.False(t, seen[c.Name], "%s", c.Name)
		seen[c.Name] = true
	}
}
