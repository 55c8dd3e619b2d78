package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// The configuration is valid: run fails only when it asks the API server, which does not exist.
func TestRunAsksTheAPIServer(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: none, context: {cluster: none}}]
current-context: none
`), 0o600))
	for name, value := range map[string]string{
		"KUBECONFIG": kubeconfig, "POD_NAMESPACE": "default",
		"POD_NAME": "operator-0", "POD_UID": "1",
	} {
		t.Setenv(name, value)
	}
	assert.ErrorContains(t, run(t.Context(), options{healthAddress: "127.0.0.1:0"}, nil, zap.NewNop()),
		"sharder: Resources[0].GVR: ask for example.bellwether.dev/v1, Resource=widgets")
}
