package shardlease

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/internal/leasehold"
)

// GuardConfig configures the transports of [Lease.WrapTransport]. Its fields are those of the type of
// this name in package leaderelection.
type GuardConfig = leasehold.GuardConfig

// WrapTransport guards a client, whose writes fail with [ErrNotHeld] while this process does not
// hold the lease. Pass it to Wrap of a [k8s.io/client-go/rest.Config] before other wrappers, so
// that it is innermost. Create the lease's own client first, from the unguarded config.
//
// Which requests are guarded, and how they end with the term, is as in package leaderelection.
func (l *Lease) WrapTransport(base http.RoundTripper) http.RoundTripper {
	return l.candidate.Guard.Wrap(base)
}

// WrapOwnTransport is WrapTransport for the client with which the shard itself lets go of objects.
// It does not count for Guarded, so that a program notices if it forgets to guard the clients of
// its work.
func (l *Lease) WrapOwnTransport(base http.RoundTripper) http.RoundTripper {
	return l.candidate.Guard.WrapOwn(base)
}

// OnOutside sets a function that is called with the resource of each write of a guarded client that
// names an object and whose context belongs to no [Term.Scope]; Do of package shard begins such a
// scope for work on an object. The function is called from any goroutine, and must return quickly.
// A second call replaces it.
func (l *Lease) OnOutside(f func(resource schema.GroupResource)) {
	l.candidate.Guard.OnOutside(func(group, resource string) { f(schema.GroupResource{Group: group, Resource: resource}) })
}

// Guarded reports whether WrapTransport was called, so that work can be guarded.
func (l *Lease) Guarded() bool { return l.candidate.Guard.Installed() }
