package shardlease

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GuardConfig configures the transports of [Lease.WrapTransport].
type GuardConfig struct {
	// Allow reports whether a guarded request may pass even if this process does not hold the
	// lease. It is called from any goroutine and must not read the body. Nil: no request may.
	Allow func(*http.Request) bool

	// NoServerTimeout omits the query parameter timeout, for writes that may take longer than a
	// term lasts without renewal. A request that is given up then counts as open for a minute, the
	// default timeout of the API server.
	NoServerTimeout bool
}

// WrapTransport guards a client, whose writes fail with [ErrNotHeld] while this process does not
// hold the lease. Pass it to Wrap of a [k8s.io/client-go/rest.Config] before other wrappers, so
// that it is innermost. Create the lease's own client first, from the unguarded config.
//
// Which requests are guarded, and how they end with the term, is as in package leaderelection.
func (l *Lease) WrapTransport(base http.RoundTripper) http.RoundTripper { return l.guard.Wrap(base) }

// WrapOwnTransport is WrapTransport for the client with which the shard itself lets go of objects.
// It does not count for Guarded, so that a program notices if it forgets to guard the clients of
// its work.
func (l *Lease) WrapOwnTransport(base http.RoundTripper) http.RoundTripper {
	return l.guard.WrapOwn(base)
}

// OnOutside sets a function that is called with the resource of each write of a guarded client that
// names an object and whose context belongs to no [Term.Scope]; Do of package shard begins such a
// scope for work on an object. The function is called from any goroutine, and must return quickly.
// A second call replaces it.
func (l *Lease) OnOutside(f func(resource schema.GroupResource)) {
	l.guard.OnOutside(func(group, resource string) { f(schema.GroupResource{Group: group, Resource: resource}) })
}

// Guarded reports whether WrapTransport was called, so that work can be guarded.
func (l *Lease) Guarded() bool { return l.guard.Installed() }
