package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTrafficCounts(t *testing.T) {
	tr := newTraffic(nil, nil)
	tr.known = []string{"a", "b"}
	tr.note("a", nil, at(1))
	tr.mark()
	tr.note("b", nil, at(2))
	tr.note("b", errors.New("refused"), at(3))
	assert.Equal(t, outcome{sent: 2, failed: 1, lastFailed: at(3)}, tr.since())
	assert.Equal(t, "               a     b     c  failed  published", trafficHeader([]string{"a", "b", "c"}))
	assert.Equal(t, "  2.50 s       1     1     0       1  a b", tr.row([]string{"a", "b", "c"}, 2500*time.Millisecond))
	assert.Equal(t, "  3.00 s       0     0     0       0  a b", tr.row([]string{"a", "b", "c"}, 3*time.Second))
}

func TestTrafficGoesToWhoIsPublished(t *testing.T) {
	arrived := make(chan string, 100)
	ports := map[string]string{}
	for _, name := range []string{"a", "b"} {
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- name }))
		defer server.Close()
		ports[name] = strings.TrimPrefix(server.URL, "http://")
	}
	ctx, cancel := context.WithCancel(t.Context())
	tr := newTraffic(func(context.Context) ([]string, error) { return []string{"b"}, nil }, ports)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tr.send(ctx)
	}()
	for range 3 {
		require.Equal(t, "b", <-arrived)
	}
	cancel()
	<-ended
	assert.Zero(t, tr.since().failed)
}
