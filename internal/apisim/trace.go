package apisim

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Served is one request, as the server served it.
type Served struct {
	At     time.Duration // since the server was made
	Client string
	Method string
	Path   string
	Query  string `json:",omitempty"`
	Code   int    // of the answer
}

// String returns one line of a trace.
func (s Served) String() string {
	query := s.Query
	if query != "" {
		query = "?" + query
	}
	return fmt.Sprintf("%12v %-8s %-6s %s%s %d", s.At.Round(time.Microsecond), s.Client, s.Method, s.Path, query,
		s.Code)
}

// same reports whether another run's request is this one. Queries differ between runs, in timeouts
// and versions.
func (s Served) same(o Served) bool {
	return s.Client == o.Client && s.Method == o.Method && s.Path == o.Path
}

// Trace returns what the server has served, in that order.
func (s *Server) Trace() []Served { return s.TraceFrom(0) }

// TraceFrom returns what the server has served after the first n requests.
func (s *Server) TraceFrom(n int) []Served {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.trace[n:])
}

// Replay makes the server serve requests in the order of the trace of another run, because in a
// bubble the order of two goroutines is random. An early request waits, and one that has not come
// after half a second is skipped.
func (s *Server) Replay(trace []Served) {
	s.order = &order{script: trace, changed: make(chan struct{})}
}

// order lets requests through in the order of a script. A nil order lets everything through.
type order struct {
	mu      sync.Mutex
	script  []Served      // what has still to come
	waiting []Served      // for their turn, or being served
	changed chan struct{} // closed and replaced when the script gets shorter
}

// patience is how long a request waits for its turn before the missing requests ahead of it are given up.
const patience = 500 * time.Millisecond

// turn waits until it is the request's turn. Call done when it has been served.
func (o *order) turn(request Served) (done func()) {
	if o == nil {
		return func() {}
	}
	o.mu.Lock()
	o.waiting = append(o.waiting, request)
	o.mu.Unlock()
	for {
		o.mu.Lock()
		at, changed := slices.IndexFunc(o.script, request.same), o.changed
		o.mu.Unlock()
		if at <= 0 { // its turn, or not in the script
			return func() { o.served(request) }
		}
		late := time.NewTimer(patience)
		select {
		case <-changed:
		case <-late.C:
			o.skip(changed)
		}
		late.Stop()
	}
}

func (o *order) served(request Served) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := slices.IndexFunc(o.waiting, request.same)
	o.waiting = slices.Delete(o.waiting, at, at+1)
	if len(o.script) > 0 && request.same(o.script[0]) {
		o.shorten(1)
	}
}

// skip gives up the requests that should have come before the first waiting one. It does nothing if the
// script has changed since the caller began to wait, because the next request may then be about to come.
func (o *order) skip(since <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if since != o.changed {
		return
	}
	first := slices.IndexFunc(o.script, func(s Served) bool { return slices.ContainsFunc(o.waiting, s.same) })
	if first > 0 {
		o.shorten(first)
	}
}

// shorten removes the beginning of the script. The caller holds mu.
func (o *order) shorten(n int) {
	o.script = o.script[n:]
	close(o.changed)
	o.changed = make(chan struct{})
}

func served(c *Client, r *http.Request) Served {
	return Served{Client: c.identity.user, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery}
}
