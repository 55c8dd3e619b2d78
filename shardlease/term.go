package shardlease

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/leasehold"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
)

// Term is one period in which this process holds the shard's lease. It is safe for concurrent use.
type Term struct {
	epoch  Epoch
	holder *leasehold.Holder
}

// Epoch returns the epoch of the term. A later term may have the same one.
func (t *Term) Epoch() Epoch { return t.epoch }

// Remaining returns how long this process holds the lease if no further renewal succeeds, and 0 if
// the term is over. Suspension of the machine counts.
func (t *Term) Remaining() time.Duration { return t.holder.Term.Remaining() }

// Err returns nil while the lease is held, and otherwise an ErrNotHeld with the reason. The process
// can be stopped before its next statement, so this may be outdated.
func (t *Term) Err() error {
	if t.holder.Term.Remaining() > 0 {
		return nil
	}
	if loss, _ := t.holder.Term.Ended(); loss != nil {
		return fmt.Errorf("%w: %w", ErrNotHeld, loss)
	}
	return ErrNotHeld
}

// Begin records for the supervisor that work on an object has begun. If this process dies before
// end is called, the Lease names the object (see [CrashOf]).
func (t *Term) Begin(object types.UID) (end func()) {
	return t.holder.Term.Begin(shardrecord.DigestOf(object))
}

// Scope begins a piece of work in the term. The returned context ends with ctx, with the term, and
// with [Scope.End]; if the term is lost, its cause is an [ErrLost]. A guarded request belongs to
// the scope from whose context its own is derived, and other requests do not count.
func (t *Term) Scope(ctx context.Context) (context.Context, *Scope) {
	ctx, s := t.holder.Scope(ctx)
	return ctx, (*Scope)(s)
}

// Scope is a piece of work in a [Term].
type Scope leasehold.Scope

// End ends the context of the scope and refuses further requests. A second call does nothing.
func (s *Scope) End() { (*leasehold.Scope)(s).End() }

// Open reports whether a guarded request of the scope may still be carried out. A request that was
// given up, or answered with a server error, counts until its timeout and a Margin are over.
func (s *Scope) Open() bool { return (*leasehold.Scope)(s).Open() }

// Settle ends the scope and waits until it is no longer open. It returns the error of ctx if ctx
// ends first.
func (s *Scope) Settle(ctx context.Context) error { return (*leasehold.Scope)(s).Settle(ctx) }

// termKey is the key of the *Term in work's context.
type termKey struct{}

// TermFrom returns the term of ctx if ctx is derived from the context of a work function.
func TermFrom(ctx context.Context) (*Term, bool) {
	t, ok := ctx.Value(termKey{}).(*Term)
	return t, ok
}
