package handover

import "context"

type termKey struct{}

// WithTerm returns a context that belongs to a term. over is closed when the term is over.
func WithTerm(ctx context.Context, over <-chan struct{}) context.Context {
	return context.WithValue(ctx, termKey{}, over)
}

// TermOf returns what is closed when the term of ctx is over. It reports false if ctx belongs to no term.
func TermOf(ctx context.Context) (over <-chan struct{}, ok bool) {
	over, ok = ctx.Value(termKey{}).(<-chan struct{})
	return over, ok
}
