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

// String is one line of a trace.
func (s Served) String() string {
	query := s.Query
	if query != "" {
		query = "?" + query
	}
	return fmt.Sprintf("%12v %-8s %-6s %s%s %d", s.At.Round(time.Microsecond), s.Client, s.Method, s.Path, query, s.Code)
}

// same reports whether another run's request is this one. Queries differ between runs, in timeouts and versions.
func (s Served) same(o Served) bool {
	return s.Client == o.Client && s.Method == o.Method && s.Path == o.Path
}

// Trace returns what the server has served, in that order.
func (s *Server) Trace() []Served {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.trace)
}

// Replay makes the server serve requests in the order of the trace of another run: in a bubble, which of two goroutines runs
// first is a matter of chance. A request that comes early waits; what has not come after half a second is skipped.
func (s *Server) Replay(trace []Served) {
	s.order = &order{script: trace, changed: make(chan struct{})}
}

// order lets requests through in the order of a script. A nil order lets everything through.
type order struct {
	mu      sync.Mutex
	script  []Served
	changed chan struct{} // closed and replaced when the script gets shorter
}

// patience is how long a request waits for its turn, before those that should have come first are given up.
const patience = 500 * time.Millisecond

// turn waits until it is the request's turn. Call done when it has been served.
func (o *order) turn(request Served) (done func()) {
	if o == nil {
		return func() {}
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		o.mu.Lock()
		at, changed := slices.IndexFunc(o.script, request.same), o.changed
		o.mu.Unlock()
		switch at {
		case -1: // never came in the other run
			return func() {}
		case 0:
			return func() { o.drop(request, 1) }
		}
		select {
		case <-changed:
		case <-late.C:
			o.drop(request, 0)
		}
	}
}

// drop removes everything before the first such request from the script, and so many of what follows.
func (o *order) drop(request Served, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at := slices.IndexFunc(o.script, request.same); at >= 0 {
		o.script = o.script[at+n:]
		close(o.changed)
		o.changed = make(chan struct{})
	}
}

func served(c *Client, r *http.Request) Served {
	return Served{Client: c.name, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery}
}
