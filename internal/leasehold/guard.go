package leasehold

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// GuardConfig configures the transports of a [Guard].
type GuardConfig struct {
	// Allow reports whether a guarded request may pass without the lease, such as a TokenRequest or
	// a readiness gate. It is called from any goroutine and must not read the body. If nil, no
	// request may.
	Allow func(*http.Request) bool

	// NoServerTimeout omits the query parameter timeout, for writes that may take longer than a
	// term lasts without renewal, such as the deletion of a large collection. A request that is
	// given up then counts as open for a minute, the default timeout of the API server.
	NoServerTimeout bool
}

// Guard passes requests that change something only while a term of its lease is held, and cuts them
// off when the term ends.
//
// Its errors are final. client-go repeats a read whose error is a timeout or looks like a broken
// connection, and takes a proxied or upgraded request for a read, so the errors wrap and quote no
// other error.
type Guard struct {
	config GuardConfig
	term   atomic.Pointer[Term] // the latest; nil before the first
	wraps  atomic.Bool
	// outside is called with the resource of each write to a named object that belongs to no scope.
	// It may be nil.
	outside atomic.Pointer[func(schema.GroupResource)]

	lease   types.NamespacedName
	notHeld error // matched by all errors
}

// newGuard returns the guard of a lease. All its errors match notHeld.
func newGuard(name types.NamespacedName, notHeld error, c GuardConfig) *Guard {
	return &Guard{config: c, lease: name, notHeld: notHeld}
}

// refused returns why a request was not sent.
func (g *Guard) refused(why string) error {
	return fmt.Errorf("%w (lease %s): %s", g.notHeld, g.lease, why)
}

// noTerm returns why a request is refused for which no term is held.
func (g *Guard) noTerm() error { return g.refused("the request was not sent") }

// cut returns why the outcome of a request is unknown.
func (g *Guard) cut() error {
	return fmt.Errorf("%w any more (lease %s): %w", g.notHeld, g.lease, lease.ErrOutcomeUnknown)
}

// termKey is the key of the *Term in a context. A guard ignores terms of other leases.
type termKey struct{ guard *Guard }

// ownKey marks the contexts of a Store's requests. They pass every guard, because the term depends
// on them, and their path would not distinguish them from another writer of the same Lease.
type ownKey struct{}

func own(ctx context.Context) context.Context { return context.WithValue(ctx, ownKey{}, true) }

// Wrap returns a transport that sends permitted requests through base.
func (g *Guard) Wrap(base http.RoundTripper) http.RoundTripper {
	g.wraps.Store(true)
	return g.WrapOwn(base)
}

// WrapOwn is Wrap, but does not count for Installed.
func (g *Guard) WrapOwn(base http.RoundTripper) http.RoundTripper { return &transport{g, base} }

// Installed reports whether Wrap was called.
func (g *Guard) Installed() bool { return g.wraps.Load() }

// OnOutside has a function called with the resource of each permitted write to a named object whose
// context belongs to no [Scope].
func (g *Guard) OnOutside(f func(schema.GroupResource)) { g.outside.Store(&f) }

type transport struct {
	guard *Guard
	base  http.RoundTripper
}

var _ utilnet.RoundTripperWrapper = (*transport)(nil)

// WrappedRoundTripper lets client-go find the TLS configuration and the idle connections.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.base }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	g := t.guard
	class, at := classify(r)
	if class == harmless || r.Context().Value(ownKey{}) != nil || g.config.Allow != nil && g.config.Allow(r) {
		return t.base.RoundTrip(r)
	}
	term := g.term.Load()
	if named, ok := r.Context().Value(termKey{g}).(*Term); ok && named != term {
		return refuse(r, g.refused("the request belongs to an earlier term, and was not sent"))
	}
	if term == nil {
		return refuse(r, g.noTerm())
	}
	caller := r.Context()
	ctx := caller
	if class == bounded {
		ctx = context.WithoutCancel(ctx) // see send
	}
	f := &inflightRequest{term: term, target: at, deletes: r.Method == http.MethodDelete}
	f.scope, _ = ctx.Value(scopeKey{g}).(*Scope)
	ctx, f.cancel = context.WithCancel(ctx)
	r = r.WithContext(ctx) // a copy
	begun := f.begin(func(left time.Duration) time.Duration {
		if class != bounded || g.config.NoServerTimeout {
			return serverTimeout
		}
		return boundOnServer(r, left)
	})
	if !begun {
		f.cancel()
		if f.scope.over() {
			return refuse(r, g.refused("the request belongs to work that has ended, and was not sent"))
		}
		return refuse(r, g.noTerm())
	}
	if outside := g.outside.Load(); outside != nil && f.scope == nil && at.name != "" {
		(*outside)(schema.GroupResource{Group: at.group, Resource: at.resource})
	}
	resp, err := f.send(caller, t.base, r)
	switch {
	case err != nil:
		return nil, g.explain(err, term)
	case resp.StatusCode == http.StatusSwitchingProtocols:
		// The body is the connection. client-go's own upgraders do not return it, but keep the
		// connection and close it with their context.
		conn, ok := resp.Body.(io.ReadWriteCloser)
		if !ok {
			f.end()
		} else if !f.hold(conn) {
			_ = conn.Close()
			return nil, g.cut()
		} else {
			resp.Body = &guardedConn{conn, f}
		}
	case resp.Body == nil || resp.Body == http.NoBody:
		f.end()
	default:
		resp.Body = &guardedBody{resp.Body, f, g}
	}
	return resp, nil
}

// refuse does what a RoundTripper that returns an error must do.
func refuse(r *http.Request, err error) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, err
}

// explain returns the error of a request that was sent. If the term is over, it hides why the
// request failed, so that the request is not repeated.
func (g *Guard) explain(err error, t *Term) error {
	switch _, over := t.Ended(); {
	case !over:
		return err
	case neverSent(err):
		return g.noTerm()
	}
	return g.cut()
}

// guardedBody ends the request when the body was read or closed. Until then, the end of the term
// cuts the body off.
type guardedBody struct {
	io.ReadCloser
	request *inflightRequest
	guard   *Guard
}

func (b *guardedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.request.end()
		if err != io.EOF { //nolint:errorlint // a wrapped EOF is a failure
			err = b.guard.explain(err, b.request.term)
		}
	}
	return n, err
}

func (b *guardedBody) Close() error {
	err := b.ReadCloser.Close() // first, or the connection would be lost with the context
	b.request.end()
	return err
}

// guardedConn is an upgraded connection. It ends the request when it is closed. EOF does not end
// it, because the other direction may continue.
type guardedConn struct {
	io.ReadWriteCloser
	request *inflightRequest
}

func (c *guardedConn) Close() error {
	err := c.ReadWriteCloser.Close()
	c.request.end()
	return err
}

// CloseWrite closes one direction if the connection can, as those of net/http can.
func (c *guardedConn) CloseWrite() error {
	if half, ok := c.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("CloseWrite: %w", http.ErrNotSupported)
}

// boundOnServer makes the API server give up when the term would end without another renewal.
// Otherwise it could commit seconds after the client has given up. A shorter timeout of the caller
// stays, and so does one that the server will refuse. r is a copy, but its URL is not.
// boundOnServer returns when the API server gives up, counted from the arrival of the request.
func boundOnServer(r *http.Request, left time.Duration) time.Duration {
	if raw := r.URL.RawQuery; !strings.Contains(raw, "timeout") && !strings.Contains(raw, "%") {
		// no encoded one either
		u := *r.URL
		left = wholeMilliseconds(left)
		u.RawQuery = strings.TrimPrefix(raw+"&timeout="+url.QueryEscape(left.String()), "&")
		r.URL = &u
		return left
	}
	query := r.URL.Query()
	if value := query.Get("timeout"); value != "" {
		if d, err := time.ParseDuration(value); err != nil || 0 < d && d <= left {
			return d
		}
	}
	left = wholeMilliseconds(left)
	query.Set("timeout", left.String())
	u := *r.URL
	u.RawQuery = query.Encode()
	r.URL = &u
	return left
}

// wholeMilliseconds rounds down, but not to zero, which would mean no timeout.
func wholeMilliseconds(d time.Duration) time.Duration {
	if short := d.Truncate(time.Millisecond); short > 0 {
		return short
	}
	return d
}
