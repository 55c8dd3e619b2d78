package shardlease

import "net/http"

// GuardConfig is about the transports that [Lease.WrapTransport] returns.
type GuardConfig struct {
	// Allow reports whether a guarded request may pass although this process may not hold the
	// lease. It is called for guarded requests only, from any goroutine, and must not read their
	// body. Nil: none.
	Allow func(*http.Request) bool

	// NoServerTimeout leaves out the query parameter timeout, for writes that may take longer than
	// a term lasts without renewal. What is given up of them counts as open for a minute, the API
	// server's own default.
	NoServerTimeout bool
}

// WrapTransport guards the requests of a client: while this process does not hold the lease, those
// that change something fail with [ErrNotHeld]. Pass it to the Wrap of a
// [k8s.io/client-go/rest.Config] before any other wrapper, so that it is the innermost. The lease
// needs a client before it can guard any: make that one first, from the config that is not guarded.
//
// What is guarded, and how requests end with the term, is as in package leaderelection.
func (l *Lease) WrapTransport(base http.RoundTripper) http.RoundTripper { return l.guard.Wrap(base) }

// WrapOwnTransport is WrapTransport for the client of the shard itself, by which it lets go of
// objects. It does not count for Guarded, so that a program that forgets to guard the clients of
// its work knows.
func (l *Lease) WrapOwnTransport(base http.RoundTripper) http.RoundTripper {
	return l.guard.WrapOwn(base)
}

// Guarded reports whether WrapTransport was ever called: whether any work is guarded.
func (l *Lease) Guarded() bool { return l.guard.Installed() }
