package shardlease

import (
	"context"
	"fmt"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// Term is one period in which this process holds the shard's lease. Its methods may be called at
// any time, from any goroutine.
type Term struct {
	epoch  Epoch
	holder *lease.Holder
}

// Epoch is that of the term. A later term may have the same.
func (t *Term) Epoch() Epoch { return t.epoch }

// Remaining is for how long the lease is held if no further renewal succeeds; zero once the term is
// over. It counts the time for which the machine was suspended.
func (t *Term) Remaining() time.Duration { return t.holder.Remaining() }

// Err is nil while the lease is held, and an ErrNotHeld otherwise, which says why. Nothing keeps
// that true until the next statement: a process can be stopped between the two.
func (t *Term) Err() error {
	if t.holder.Remaining() > 0 {
		return nil
	}
	if loss, _ := t.holder.Ended(); loss != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, loss)
	}
	return ErrNotHeld
}

// Scope begins a piece of work under the term. Its end is when nothing of it can
// happen any more. The context that it returns ends with ctx, with the term (with an ErrLost as its
// cause if it was lost), and with [Scope.End]. Guarded requests belong to the scope that their
// context is derived from; those that are not sent with it are not counted.
func (t *Term) Scope(ctx context.Context) (context.Context, *Scope) {
	ctx, s := t.holder.Scope(ctx)
	return ctx, (*Scope)(s)
}

// Scope is a piece of work under a [Term].
type Scope lease.Scope

// End ends the context of the scope, and refuses further requests of it. It may be called again.
func (s *Scope) End() { (*lease.Scope)(s).End() }

// Open reports whether a guarded request of the scope may still be carried out: one that has no
// answer, or one that was given up, or answered with a server's error, until its timeout= and a
// margin have passed.
func (s *Scope) Open() bool { return (*lease.Scope)(s).Open() }

// Settle ends the scope and waits until it is not open any more. It returns the error of ctx if
// that ends before.
func (s *Scope) Settle(ctx context.Context) error { return (*lease.Scope)(s).Settle(ctx) }

// termKey is the key of the *Term in work's context.
type termKey struct{}

// TermFrom returns the term that ctx belongs to, if it is derived from the context of a work
// function.
func TermFrom(ctx context.Context) (*Term, bool) {
	t, ok := ctx.Value(termKey{}).(*Term)
	return t, ok
}
