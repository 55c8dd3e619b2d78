package leasehold

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/internal/handover"
)

// inflightRequest is a guarded request, from before it is sent until its body has been read or
// closed.
type inflightRequest struct {
	term     *Term
	target   target // empty if not known
	deletes  bool
	cancel   context.CancelFunc // of the request's context
	scope    *Scope             // or nil
	bound    time.Duration      // how long the API server tries at most
	write    *handover.Write    // nil if not noted
	conn     io.Closer          // guarded by term.mu: of an upgrade, or nil
	unlink   func() bool        // detaches it from the caller's context; nil before the answer
	answered sync.Once
}

// begin admits the request if the term is held. It calls bound with the time that the term lasts
// without another renewal. bound returns the time after which the API server gives up.
func (f *inflightRequest) begin(bound func(left time.Duration) time.Duration) bool {
	t := f.term
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.left(now)
	if t.state != held || left <= 0 || !f.scope.begin() {
		return false
	}
	f.bound = bound(left)
	if t.requests == nil {
		t.requests = map[*inflightRequest]struct{}{}
	}
	t.requests[f] = struct{}{}
	t.open.begin()
	f.write = f.note(t.log)
	return true
}

// note notes the write before it is sent. A nil log notes nothing.
func (f *inflightRequest) note(l *handover.Log) *handover.Write {
	resource := schema.GroupResource{Group: f.target.group, Resource: f.target.resource}
	switch {
	case resource.Resource == "":
		l.Blind()
		return nil
	case f.deletes:
		return l.Begin(resource, handover.Deletion)
	case f.target.subresource != "":
		return l.Begin(resource, handover.Subresource)
	}
	return l.Begin(resource, handover.Whole)
}

// answer records the answer, or the failure err. After a failure, or a server error of an API
// server or a proxy, the request may still be carried out, because etcd may commit the write later.
func (f *inflightRequest) answer(resp *http.Response, err error) {
	switch {
	case err == nil && resp.StatusCode < http.StatusInternalServerError:
		f.land()
	case err != nil && neverSent(err):
		f.write.Refused()
		f.land()
	default:
		f.abandon()
	}
}

// abandon gives up the request and reports whether it had no answer.
func (f *inflightRequest) abandon() bool {
	t := f.term
	return f.land(abandoned{t.clock.Now(), f.bound, t.ledger.Now() + f.bound + t.timing.Margin})
}

// land stops counting the request and reports whether this is the first call.
func (f *inflightRequest) land(without ...abandoned) (first bool) {
	f.answered.Do(func() {
		first = true
		if len(without) > 0 {
			f.write.Lost()
		}
		f.term.open.answer(without...)
		if f.scope != nil {
			f.scope.open.answer(without...)
		}
	})
	return first
}

// neverSent reports whether there was no connection to send a request on.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// hold makes the end of the term close conn, unless the request has ended before. It returns false
// if the term is over.
func (f *inflightRequest) hold(conn io.Closer) bool {
	f.term.mu.Lock()
	defer f.term.mu.Unlock()
	if _, flying := f.term.requests[f]; !flying {
		return false
	}
	f.conn = conn
	return true
}

// end frees the request. A second call does nothing.
func (f *inflightRequest) end() {
	f.term.mu.Lock()
	delete(f.term.requests, f)
	f.term.mu.Unlock()
	if f.unlink != nil {
		f.unlink()
	}
	f.cancel()
}

// cancelRequests ends the guarded requests of a term that is over, and returns how many had no
// answer.
func (t *Term) cancelRequests() (unanswered int) {
	t.mu.Lock()
	requests, scopes := t.requests, t.scopes
	t.requests, t.scopes = nil, nil
	t.mu.Unlock()
	for s := range scopes {
		s.cancel(t.cause())
	}
	for f := range requests {
		if f.abandon() {
			unanswered++
		}
		f.cancel()
		if f.conn != nil {
			go func() { _ = f.conn.Close() }() // closing TLS may take five seconds
		}
	}
	return unanswered
}

// send returns the answer, or an error as soon as the caller's context ends. A write continues for up
// to a margin after that, to learn its outcome. If it were cut off, a release would have to wait
// until the API server gives up, and its successor would not know what was written.
func (f *inflightRequest) send(caller context.Context, base http.RoundTripper, r *http.Request) (*http.Response,
	error,
) {
	type answer struct {
		resp *http.Response
		err  error
	}
	answers, left := make(chan answer), make(chan struct{})
	go func() {
		resp, err := base.RoundTrip(r)
		if err == nil {
			f.write.Answered(resp)
		}
		select {
		case <-left:
			discard(resp)
		default:
		}
		f.answer(resp, err)
		select {
		case answers <- answer{resp, err}:
		case <-left:
			discard(resp)
			f.end()
		}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-caller.Done():
		if r.Context().Err() == nil {
			close(left)
			f.term.clock.AfterFunc(f.term.timing.Margin, f.cancel)
			return nil, context.Cause(caller)
		}
		a = <-answers // cut off
	}
	if a.err != nil {
		f.end()
		return nil, a.err
	}
	f.unlink = context.AfterFunc(caller, f.cancel) // the outcome is known now
	return a.resp, nil
}

// discard closes an answer without a caller. It does nothing the second time.
func discard(resp *http.Response) {
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
}

// Scope is a piece of work in a term. Its context ends with the term, and it counts the guarded
// requests with that context that may still be carried out.
type Scope struct {
	term   *Term
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	ended bool
	open  openRequests
}

// scopeKey is the key of the *Scope in a context, for one guard.
type scopeKey struct{ guard *Guard }

// Scope begins a piece of work. The returned context ends with ctx, with the term, and with End.
func (h *Holder) Scope(ctx context.Context) (context.Context, *Scope) {
	t, guard := h.Term, h.guard
	ctx, cancel := context.WithCancelCause(ctx)
	s := &Scope{term: t, cancel: cancel}
	t.mu.Lock()
	over := t.state != held
	if !over {
		if t.scopes == nil {
			t.scopes = map[*Scope]struct{}{}
		}
		t.scopes[s] = struct{}{}
	}
	t.mu.Unlock()
	if over {
		cancel(t.cause())
	}
	return context.WithValue(t.named(ctx, guard), scopeKey{guard}, s), s
}

// cause returns the cause of contexts that end with the term.
func (t *Term) cause() error {
	if loss, _ := t.Ended(); loss != nil {
		return loss
	}
	return nil // context.Canceled
}

// begin counts a request, unless the scope has ended. A nil Scope counts nothing.
func (s *Scope) begin() bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.open.begin()
	return true
}

// over reports whether the scope has ended.
func (s *Scope) over() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// End ends the context of the scope and refuses further requests. A second call does nothing.
func (s *Scope) End() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.term.mu.Lock()
	delete(s.term.scopes, s)
	s.term.mu.Unlock()
	s.cancel(nil)
}

// Open reports whether a request of the scope may still be carried out: it has no answer, or it was
// abandoned and the API server has not given up for a margin yet.
func (s *Scope) Open() bool {
	wait, landed := s.rest()
	return wait > 0 || landed != nil
}

// Settle ends the scope and waits until it is no longer open. It returns the error of ctx if ctx
// ends first.
func (s *Scope) Settle(ctx context.Context) error {
	s.End()
	for {
		wait, landed := s.rest()
		if wait <= 0 && landed == nil {
			return nil
		}
		var given <-chan time.Time
		if landed == nil {
			timer := s.term.clock.NewTimer(wait)
			defer timer.Stop()
			given = timer.C()
		}
		select {
		case <-landed:
		case <-given:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// rest returns how long abandoned requests may still be carried out, and a channel that is closed
// when all others have an answer; nil if they have.
func (s *Scope) rest() (wait time.Duration, landed <-chan struct{}) {
	return s.open.rest(s.term.clock.Now(), s.term.timing.Margin)
}
