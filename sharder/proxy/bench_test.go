package proxy_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/proxy"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

// BenchmarkRequests measures what the proxy adds to a request, beside the same request sent directly to a server in
// this process over TLS and HTTP/2.
func BenchmarkRequests(b *testing.B) {
	server := apisim.NewServer()
	upstream := httptest.NewUnstartedServer(server.Handler())
	upstream.EnableHTTP2 = true
	upstream.StartTLS()
	defer upstream.Close()
	direct := &rest.Config{
		Host: upstream.URL, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(
			&pem.Block{Type: "CERTIFICATE", Bytes: upstream.Certificate().Raw})},
	}
	admin, err := kubernetes.NewForConfig(direct)
	require.NoError(b, err)
	_, err = admin.CoreV1().ConfigMaps("default").Create(b.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"x": strings.Repeat("x", 2000)},
	}, metav1.CreateOptions{})
	require.NoError(b, err)
	c := replica.Config{
		Namespace: "default", Ring: "r", Identity: "a", Mapper: mapper(), Resources: []api.Resource{{GVR: configMaps}},
	}
	r, err := replica.New(direct, c)
	require.NoError(b, err)
	proxied := func(ctx context.Context, show bool) (*rest.Config, func()) {
		p, err := proxy.New(proxy.Config{
			Shard: r.Shard, Upstream: r.ShardConfig, Mapper: mapper(), Ring: "r", Identity: "a", Resources: c.Resources,
			ShowMarks: show,
		})
		require.NoError(b, err)
		access, err := proxy.Listen(p)
		require.NoError(b, err)
		go func() { _ = access.Serve() }()
		ready := make(chan struct{})
		go func() { _ = p.Run(ctx, func() { close(ready) }) }()
		<-ready
		return &rest.Config{
			Host: "https://" + access.Host + ":" + access.Port, BearerToken: access.Token,
			TLSClientConfig: rest.TLSClientConfig{CAData: access.CA},
		}, func() { _ = access.Close() }
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	began := make(chan context.Context)
	go func() {
		ended <- r.Run(ctx, func(ctx context.Context) error {
			began <- ctx
			<-ctx.Done()
			return nil
		}, nil)
	}()
	work := <-began
	b.Run("direct", func(b *testing.B) { requests(b, direct) })
	for name, show := range map[string]bool{"hidden": false, "shown": true} {
		config, end := proxied(work, show)
		b.Run(name, func(b *testing.B) { requests(b, config) })
		end()
	}
	cancel()
	require.NoError(b, <-ended)
}

// requests measures gets and updates of an object.
func requests(b *testing.B, config *rest.Config) {
	b.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(b, err)
	defer client.CloseIdleConnections()
	url := config.Host + "/api/v1/namespaces/default/configmaps/m"
	send := func(method string, body []byte) []byte {
		request, err := http.NewRequestWithContext(b.Context(), method, url, bytes.NewReader(body))
		require.NoError(b, err)
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		require.NoError(b, err)
		defer func() { _ = response.Body.Close() }()
		var answer bytes.Buffer
		_, err = answer.ReadFrom(response.Body)
		require.NoError(b, err)
		require.Equal(b, http.StatusOK, response.StatusCode, "%s", answer.Bytes())
		return answer.Bytes()
	}
	b.Run("get", func(b *testing.B) {
		for b.Loop() {
			send(http.MethodGet, nil)
		}
	})
	b.Run("update", func(b *testing.B) {
		body := send(http.MethodGet, nil)
		for b.Loop() {
			body = send(http.MethodPut, body)
		}
	})
}
