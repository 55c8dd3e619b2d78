package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
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

func TestTrafficGoesToPublishedServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*pause+pause/2)
		defer cancel()
		published := func(context.Context) ([]string, error) { return []string{"b"}, nil }
		tr := newTraffic(published, map[string]string{"a": "1", "b": "2"})
		tr.request = func(_ context.Context, url string) error {
			if url != "http://2" {
				return errors.New("no server")
			}
			return nil
		}
		tr.send(ctx)
		assert.Equal(t, outcome{sent: 50}, tr.since())
		assert.Equal(t, map[string]int{"b": 50}, tr.counts)
	})
}

func TestRequestFailsUnlessItIsAnsweredWell(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer server.Close()
	assert.Error(t, request(t.Context(), server.URL+"/other"), "another status than OK")
	address := server.URL
	server.Close()
	assert.Error(t, request(t.Context(), address), "there is no server")
}
