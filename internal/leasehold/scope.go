package leasehold

import (
	"context"
	"sync"
	"time"
)

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
	t, guard := h.Term, h.config.Guard
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
	return context.WithValue(context.WithValue(ctx, termKey{guard}, t), scopeKey{guard}, s), s
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
