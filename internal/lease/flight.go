package lease

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// flight is a request under a guard, from before it is sent until its body has been read or closed.
type flight struct {
	term   *Term
	cancel context.CancelFunc // of the request's context
	conn   io.Closer          // guarded by term.mu: a connection that the request was upgraded to; nil if there is none
	scope  *Scope             // that it belongs to; nil: none
	bound  time.Duration      // how long the API server tries at most, from when it has received the request
}

// begin lets the request go if the term is held, and returns how long that will last if no renewal succeeds.
func (f *flight) begin() (left time.Duration, ok bool) {
	t := f.term
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	left = t.left(now)
	if t.state != held || left <= 0 || !f.scope.begin() {
		return 0, false
	}
	if t.flights == nil {
		t.flights = map[*flight]struct{}{}
	}
	t.flights[f] = struct{}{}
	t.unanswered++
	return left, true
}

// answer notes that the request has been answered, or has failed with err: then it may still be carried out. So may one that an API
// server, or a proxy before it, has given up waiting for: a write that etcd had not committed when its time was over.
func (f *flight) answer(resp *http.Response, err error) {
	t := f.term
	var now clock.Reading
	abandoned := err != nil && !neverSent(err) || err == nil && resp.StatusCode >= http.StatusInternalServerError
	if abandoned {
		now = t.clock.Now()
	}
	f.scope.answer(f, abandoned, now)
	t.mu.Lock()
	defer t.mu.Unlock()
	if abandoned {
		t.abandoned = &now
	}
	t.unanswered--
	if t.unanswered == 0 && t.quiet != nil {
		close(t.quiet)
		t.quiet = nil
	}
}

// neverSent reports whether there was no connection to send a request on.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// hold closes conn when the term is over, unless the flight has ended by then. It reports false if the
// term is over already.
func (f *flight) hold(conn io.Closer) bool {
	f.term.mu.Lock()
	defer f.term.mu.Unlock()
	if _, flying := f.term.flights[f]; !flying {
		return false
	}
	f.conn = conn
	return true
}

// end releases what the flight holds. It may be called again.
func (f *flight) end() {
	f.term.mu.Lock()
	delete(f.term.flights, f)
	f.term.mu.Unlock()
	f.cancel()
}

// abandonedFor is for how long a release waits for a request that failed without an answer; zero if there
// is none.
func (t *Term) abandonedFor(now clock.Reading, margin time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned == nil {
		return 0
	}
	return margin - now.SinceAtLeast(*t.abandoned)
}

// over reports whether the term has ended, on either side.
func (t *Term) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state != held
}

// answered returns a channel that is closed when every request under the guard has been answered; nil if all have been. The term is
// over, so no more of them begin.
func (t *Term) answered() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unanswered > 0 && t.quiet == nil {
		t.quiet = make(chan struct{})
	}
	return t.quiet
}

// cut ends what is under way under the guard of a term that is over, and returns how many requests had no answer.
func (t *Term) cut() (unanswered int) {
	t.mu.Lock()
	flights, scopes := t.flights, t.scopes
	t.flights, t.scopes = nil, nil
	unanswered = t.unanswered
	t.mu.Unlock()
	for s := range scopes {
		s.cancel(t.cause())
	}
	for f := range flights {
		f.cancel()
		if f.conn != nil {
			go func() { _ = f.conn.Close() }() // TLS may take five seconds to say goodbye
		}
	}
	return unanswered
}
