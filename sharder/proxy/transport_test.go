package proxy_test

import (
	"bufio"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/proxy"
)

// echo upgrades a connection, and then answers with what it gets.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, stream, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.Copy(conn, stream)
}

func TestConnectionsAreUpgraded(t *testing.T) {
	server := apisim.NewServer(apisim.Resource{GroupVersionResource: secrets, Kind: "Secret", Namespaced: true})
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Upgrade") != "":
			echo(w, r)
		case r.URL.Path == "/protocol":
			_, _ = io.WriteString(w, r.Proto)
		default:
			server.Handler().ServeHTTP(w, r)
		}
	}))
	upstream.EnableHTTP2 = true
	upstream.StartTLS()
	defer upstream.Close()
	m := join(t, server, "a", func(c *proxy.Config) {
		c.Upstream = &rest.Config{
			Host: upstream.URL, WrapTransport: c.Upstream.WrapTransport,
			TLSClientConfig: rest.TLSClientConfig{
				CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: upstream.Certificate().Raw}),
			},
		}
	})
	defer m.leave(t)
	front := httptest.NewServer(m.proxy)
	defer front.Close()

	answer, err := http.Get(front.URL + "/protocol")
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	assert.Equal(t, "HTTP/2.0", string(text))

	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, "POST /api/v1/namespaces/ns/pods/p/exec?command=ls HTTP/1.1\r\nHost: x\r\n"+
		"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n")
	require.NoError(t, err)
	stream := bufio.NewReader(conn)
	answer, err = http.ReadResponse(stream, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	line, err := stream.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "hello\n", line)
}
