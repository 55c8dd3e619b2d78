package leaderelection

import (
	"context"
	"net/http"

	"github.com/bellwether-k8s/bellwether/internal/leasehold"
)

// GuardConfig configures the transports of [Elector.WrapTransport].
//
// Allow func(*http.Request) bool reports whether a guarded request may pass even if this process is
// not the leader, such as a TokenRequest or a readiness gate. It is called from any goroutine and must
// not read the body. If nil, no request may.
//
// NoServerTimeout bool omits the query parameter timeout, for writes that may take longer than a term
// lasts without renewal, such as the deletion of a large collection. A request that is given up then
// counts as open for a minute, the default timeout of the API server.
type GuardConfig = leasehold.GuardConfig

// WrapTransport guards a client: while this process is not the leader, its writes fail with
// [ErrNotLeader]. Pass it to Wrap of a [k8s.io/client-go/rest.Config] before other wrappers, so
// that it is innermost and sees their retries. Create the elector's own client first, from the
// unguarded config, although a guard would pass its requests.
//
// The guard covers all methods except GET, HEAD and OPTIONS; exec, attach, portforward, proxy and
// connection upgrades with any method; and ambiguous paths. These pass: access reviews, rules
// reviews, self subject reviews and token reviews; Events, except their deletion; requests with
// dryRun=All in the query; and what [GuardConfig].Allow accepts.
//
// A guarded request is sent only in a term. If its context is derived from the lead function's
// ([TermFrom]), it is sent only in that term. When the term is lost, the request is cancelled;
// without an answer it fails with ErrNotLeader and [ErrOutcomeUnknown], and client-go does not
// retry it.
//
// A write to the Kubernetes API outlives its caller's context: the caller gets its error at once,
// and the request continues for up to Margin until it is answered. Its outcome is then known, and
// the Lease can be released as soon as the lead function has returned. Such writes carry the query
// parameter timeout=<rest of the term>, so that the API server gives up as well; a shorter timeout
// of the caller stays. New requests are refused once the lead function has returned. Requests
// without an answer by Margin after that are cut off. The API server may still carry them out, as
// well as requests that it answered with a server error such as 504, so the Lease is renewed until
// Margin after it has given them up.
//
// An upgraded connection is closed with the term if it is the response's body. client-go's SPDY and
// WebSocket executors hide theirs, so pass the lead function's context to their StreamWithContext.
//
// The guard works on the client, so the API server may carry out after the term what it has
// received, and a process stopped between check and send sends when it resumes.
func (e *Elector) WrapTransport(base http.RoundTripper) http.RoundTripper {
	return e.candidate.Guard.Wrap(base)
}

// termKey is the key of the Term in the lead function's context.
type termKey struct{}

// TermFrom returns the term of ctx if ctx is derived from a lead function's context. Token grows
// from term to term, and Transitions grows until the Lease is deleted. Store one with what the
// leader writes, to recognize writes of earlier leaders.
func TermFrom(ctx context.Context) (Term, bool) {
	t, ok := ctx.Value(termKey{}).(Term)
	return t, ok
}
