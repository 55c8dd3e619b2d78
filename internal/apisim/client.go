package apisim

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// errConnection is what a client sees of a connection that breaks.
var errConnection = errors.New("apisim: connection reset by peer")

// Client is the connection of one replica, with its faults. It implements http.RoundTripper.
type Client struct {
	name   string
	server *Server

	mu     sync.Mutex
	faults Faults
}

// Faults of a connection. They hold for what is sent while they are set.
type Faults struct {
	// Latency is the time a request takes to the server, and again its answer back.
	Latency time.Duration
	// WatchLag is how late events arrive.
	WatchLag time.Duration
	// LoseRequest makes requests vanish on their way: nothing is done, and no answer comes.
	LoseRequest func(*http.Request) bool
	// LoseResponse makes answers vanish: what was asked for is done.
	LoseResponse func(*http.Request) bool
	// Refuse answers requests with a connection error at once.
	Refuse func(*http.Request) bool
}

// Always is a fault of every request.
func Always(*http.Request) bool { return true }

// Client returns a connection without faults.
func (s *Server) Client(name string) *Client { return &Client{name: name, server: s} }

// Config returns a configuration for any client library. Client-side throttling is off.
func (c *Client) Config() *rest.Config {
	return &rest.Config{
		Host: "http://" + c.name + ".invalid", Transport: c, QPS: -1, UserAgent: c.name,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
}

// Inject replaces the faults of the connection.
func (c *Client) Inject(f Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = f
}

func (c *Client) current() Faults {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults
}

func (c *Client) lag() time.Duration { return c.current().WatchLag }

// RoundTrip implements http.RoundTripper.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	f := c.current()
	switch {
	case f.Refuse != nil && f.Refuse(r):
		return nil, &url.Error{Op: r.Method, URL: r.URL.String(), Err: errConnection}
	case f.LoseRequest != nil && f.LoseRequest(r):
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if err := wait(r, f.Latency); err != nil {
		return nil, err
	}
	answer := c.server.serve(c, r, body)
	if f.LoseResponse != nil && f.LoseResponse(r) {
		_ = answer.Body.Close()
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if err := wait(r, f.Latency); err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	return answer, nil
}

func wait(r *http.Request, d time.Duration) error {
	if d == 0 {
		return r.Context().Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

func response(r *http.Request, code int, body io.ReadCloser, length int64) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: length, Request: r,
	}
}
