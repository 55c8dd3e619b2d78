package leasehold

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// TestGuardOverSockets is what only net/http's own transport shows.
func TestGuardOverSockets(t *testing.T) {
	arrived := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case pods + "/p/exec":
			conn, buffered, err := w.(http.Hijacker).Hijack()
			if !assert.NoError(t, err) {
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = buffered.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " +
				"echo\r\n\r\n")
			_ = buffered.Flush()
			_, _ = io.Copy(conn, buffered)
		case pods + "/stuck":
			arrived <- struct{}{}
			<-r.Context().Done()
		default:
			_, _ = io.WriteString(w, "done")
		}
	}))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	g := newGuardian(base.RoundTrip, GuardConfig{})
	send := func(method, path string) (*http.Response, error) {
		reused := false
		r, _ := request(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
		}), method, path)
		u, err := r.URL.Parse(server.URL + path)
		require.NoError(t, err)
		r.URL = u
		resp, err := g.RoundTrip(r)
		if err == nil {
			resp.Header.Set("Reused", map[bool]string{true: "yes", false: "no"}[reused])
		}
		return resp, err
	}

	for _, reused := range []string{"no", "yes", "yes"} {
		resp, err := send(http.MethodPut, pods+"/p")
		require.NoError(t, err)
		data, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.NoError(t, resp.Body.Close())
		assert.Equal(t, "done", string(data))
		assert.Equal(t, reused, resp.Header.Get("Reused"), "the guard must not cost connections")
	}

	resp, err := send(http.MethodGet, pods+"/p/exec")
	require.NoError(t, err)
	conn, ok := resp.Body.(io.ReadWriteCloser)
	require.True(t, ok)
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	lines := bufio.NewReader(conn)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "hello\n", line)

	go func() {
		<-arrived
		g.term.lose(lease.ErrTaken, "b")
	}()
	_, err = send(http.MethodPut, pods+"/stuck")
	assert.ErrorIs(t, err, lease.ErrOutcomeUnknown, "it returns, though no answer comes")
	_, err = lines.ReadString('\n')
	assert.Error(t, err, "the upgraded connection ends with the term")
}
