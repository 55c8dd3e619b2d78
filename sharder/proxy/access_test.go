package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Other containers of the Pod share loopback, and have no token.
func TestOnlyTheProgramHasAWayIn(t *testing.T) {
	asked := 0
	a, err := Listen(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- a.Serve() }()
	defer func() {
		assert.NoError(t, a.Close())
		assert.NoError(t, <-served)
	}()

	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(a.CA))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	for _, token := range []string{"", "Bearer ", "Bearer x" + a.Token, "Bearer " + a.Token[1:], a.Token} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+a.Host+":"+a.Port+"/version", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", token)
		response, err := transport.RoundTrip(r)
		require.NoError(t, err)
		assert.Equal(t, http.StatusUnauthorized, response.StatusCode, token)
		var status metav1.Status
		data, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		assert.NoError(t, response.Body.Close())
		require.NoError(t, json.Unmarshal(data, &status))
		assert.Equal(t, metav1.StatusReasonUnauthorized, status.Reason)
	}
	assert.Zero(t, asked)

	kubeconfig, err := a.Kubeconfig("ns")
	require.NoError(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	directory := t.TempDir()
	require.NoError(t, a.WriteServiceAccount(directory, "ns"))
	token, err := os.ReadFile(filepath.Join(directory, "token"))
	require.NoError(t, err)
	inCluster := &rest.Config{
		Host: config.Host, BearerToken: string(token),
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(directory, "ca.crt")},
	}
	for _, c := range []*rest.Config{config, inCluster} {
		client, err := rest.HTTPClientFor(c)
		require.NoError(t, err)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Host+"/version", nil)
		require.NoError(t, err)
		response, err := client.Do(r)
		require.NoError(t, err)
		assert.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusOK, response.StatusCode)
		client.CloseIdleConnections()
	}
	assert.Equal(t, 2, asked)
}
