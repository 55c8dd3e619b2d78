package anycontroller_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A replica that starts while the API server is unreachable waits for it, although it cannot know its resources yet. A
// kubelet that asks it meanwhile does not restart it.
func TestAReplicaStartsDuringAnOutage(t *testing.T) {
	s := newStub(t)
	network, err := s.cp.Proxy()
	require.NoError(t, err)
	network.Cut()
	r, err := s.run("a", "a", network.Config(s.user("a")))
	require.NoError(t, err)
	s.replicas["a"] = r
	said := func(text string) func() bool {
		return func() bool {
			log, err := os.ReadFile(r.Log())
			return err == nil && strings.Contains(string(log), text)
		}
	}
	require.Eventually(t, said("request failed, retrying"), patience, poll)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		response, err := http.Get("http://" + r.address() + path)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", path, body)
	}
	network.Heal()
	s.begun("a")
	assert.True(t, said("request succeeds again")())
}

// One whose credentials are not accepted says so, and ends after the duration of its Lease.
func TestAReplicaThatIsRefusedEnds(t *testing.T) {
	s := newStub(t)
	s.lease = 5 * time.Second
	config := s.cp.User(s.namespace + "-a")
	config.CertData, config.KeyData, config.BearerToken = nil, nil, "of another cluster"
	r, err := s.run("a", "a", config)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exit, err := r.Wait(ctx)
	require.NoError(t, err)
	assert.Equal(t, 69, exit.Code)
	log, err := os.ReadFile(r.Log())
	require.NoError(t, err)
	assert.Contains(t, string(log), "Unauthorized")
}
