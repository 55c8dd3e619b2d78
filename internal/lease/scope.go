package lease

import (
	"context"
	"sync"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Scope is a piece of work under a term: its context ends with the term, and it knows which of the guarded requests that were sent with
// that context may still be carried out.
type Scope struct {
	term   *Term
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	ended     bool
	flying    int         // requests without an answer
	abandoned []abandoned // and those that failed without one
	changed   chan struct{}
}

// abandoned is a request of which nobody knows whether it was carried out, or will be.
type abandoned struct {
	sent  clock.Reading
	bound time.Duration // how long the API server tries
}

// Scope begins a piece of work. The context that it returns ends with ctx, with the term, and with End.
func (t *Term) Scope(ctx context.Context) (context.Context, *Scope) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &Scope{term: t, cancel: cancel}
}

// End ends the context of the scope, and refuses further requests of it.
func (s *Scope) End() {}

// Open reports whether a request of the scope may still be carried out.
func (s *Scope) Open() bool { return false }

// Settle ends the scope and waits until it is not open any more, or until ctx has ended.
func (s *Scope) Settle(ctx context.Context) error { return ctx.Err() }
