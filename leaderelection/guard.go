package leaderelection

import (
	"context"
	"net/http"
)

// GuardConfig is about the transports that [Elector.WrapTransport] returns.
type GuardConfig struct {
	// Allow reports whether a guarded request may pass although this process may not be the leader: for what writes
	// before the election or beside it, such as a TokenRequest or a readiness gate. It is called for guarded
	// requests only, from any goroutine, and must not read their body. Nil: none.
	Allow func(*http.Request) bool

	// NoServerTimeout leaves out the query parameter timeout, for writes that may take longer than a term lasts
	// without renewal, such as the deletion of a large collection.
	NoServerTimeout bool
}

// WrapTransport guards the requests of a client: while this process is not the leader, those that change something fail with
// [ErrNotLeader]. Pass it to the Wrap of a [k8s.io/client-go/rest.Config] before any other wrapper, so that it is the
// innermost and sees what is sent, also by wrappers that try again. The elector needs a client before it can guard any: make
// that one first, from the config that is not guarded (its requests would pass, though).
//
// Guarded are all methods but GET, HEAD and OPTIONS; the subresources exec, attach, portforward and proxy and upgrades of the
// connection whatever the method; and any path that could be understood in two ways. These pass: access reviews, rules
// reviews, self subject reviews and token reviews; Events, except that they are deleted; what has dryRun=All in its query;
// and what [GuardConfig].Allow says.
//
// A guarded request is sent only within a term; if its context is derived from that of the lead function ([TermFrom]), only
// within that one. When the term is lost the request is cancelled, and fails with ErrNotLeader and [ErrOutcomeUnknown] if it
// had no answer. client-go tries it no second time.
//
// A write to the Kubernetes API outlives its caller's context: the caller has its error at once, and the
// request goes on for up to Margin, until it is answered. So its outcome is known, and the Lease can be
// released as soon as the lead function has returned. Such writes carry the query parameter
// timeout=<rest of the term>, by which the API server gives up as well; a shorter timeout of the caller
// stays. New requests are refused once the lead function has returned. What has no answer by Margin after
// that is cut off. It may still be carried out until the API server has given it up, and so may a request
// that was answered with a server's error, such as 504: the Lease is renewed until Margin after that, and
// then released.
//
// An upgraded connection is closed with the term if it is the response's body. client-go's SPDY and WebSocket executors keep
// theirs to themselves: give their StreamWithContext the context of the lead function.
//
// All this happens on the client. What is at the API server already may be carried out after the term, and a process that is
// stopped between the check and the sending sends when it is woken.
func (e *Elector) WrapTransport(base http.RoundTripper) http.RoundTripper { return e.guard.Wrap(base) }

// termKey is the key of the Term in the lead function's context.
type termKey struct{}

// TermFrom returns the term that ctx belongs to, if it is derived from the context of a lead function. Token grows from term to
// term, and so does Transitions while nobody deletes the Lease: written into what a leader writes, it tells the work of an
// earlier one.
func TermFrom(ctx context.Context) (Term, bool) {
	t, ok := ctx.Value(termKey{}).(Term)
	return t, ok
}
