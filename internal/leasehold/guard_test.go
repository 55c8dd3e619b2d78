package leasehold

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

var name = types.NamespacedName{Namespace: "ns", Name: "l"}

var errNotHeld = errors.New("test: not held")

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// stuck answers nothing until the request ends.
func stuck(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// guardian is a guard with the term that it guards, and a transport that counts.
type guardian struct {
	*Guard
	http.RoundTripper
	term *Term
	base roundTripper
	sent atomic.Int32
}

// usable is D - M.
const usable = 12 * time.Second

func newGuardian(base roundTripper, c GuardConfig) *guardian {
	g := &guardian{Guard: newGuard(name, errNotHeld, c), base: base}
	g.RoundTripper = g.Wrap(roundTripper(func(r *http.Request) (*http.Response, error) {
		g.sent.Add(1)
		return g.base(r)
	}))
	g.begin()
	return g
}

func (g *guardian) begin() {
	c := clock.System()
	g.term = newTerm(Config{
		Lease: name, Timing: lease.Timing{}.WithDefaults(), Clock: c, OnLost: func(*lease.LostError) {},
	}, g.Guard, c.Now())
	g.Guard.term.Store(g.term)
}

// flying is how many requests hold something.
func (g *guardian) flying() int {
	g.term.mu.Lock()
	defer g.term.mu.Unlock()
	return len(g.term.requests)
}

func (g *guardian) named(ctx context.Context) context.Context {
	return g.term.named(ctx, g.Guard)
}

func answer(code int, body io.ReadCloser) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: body, Request: r}, nil
	}
}

func ok(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// body notes whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

func request(ctx context.Context, method, path string) (*http.Request, *body) {
	b := &body{Reader: strings.NewReader("{}")}
	r, err := http.NewRequestWithContext(ctx, method, "https://api.invalid"+path, b)
	if err != nil {
		panic(err)
	}
	return r, b
}

const pods = "/api/v1/namespaces/ns/pods"

// do sends a request and reads the answer.
func (g *guardian) do(ctx context.Context, method, path string) error {
	r, _ := request(ctx, method, path)
	resp, err := g.RoundTrip(r)
	if err != nil {
		return err
	}
	_, err = io.ReadAll(resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func requireFinal(t *testing.T, err error) {
	t.Helper()
	var timeout interface{ Timeout() bool }
	assert.NotErrorAs(t, err, &timeout)
	err = &url.Error{Op: "Get", Err: err} // as from an http.Client
	assert.False(t, utilnet.IsTimeout(err))
	assert.False(t, utilnet.IsProbableEOF(err))
	assert.False(t, utilnet.IsConnectionReset(err))
	assert.False(t, utilnet.IsConnectionRefused(err))
	assert.False(t, utilnet.IsHTTP2ConnectionLost(err))
	assert.NotErrorIs(t, err, io.EOF)
	assert.NotErrorIs(t, err, context.DeadlineExceeded)
}

func TestRequestsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(g *guardian)
		ctx  func(g *guardian, ctx context.Context) context.Context
		pass bool
	}{
		{name: "no term yet", end: func(g *guardian) { g.Guard.term.Store(nil) }},
		{name: "in the term", pass: true},
		{name: "in the term, named", ctx: (*guardian).named, pass: true},
		{name: "lost", end: func(g *guardian) { g.term.lose(lease.ErrTaken, "b") }},
		{name: "lost, named", end: func(g *guardian) { g.term.lose(lease.ErrTaken, "b") }, ctx: (*guardian).named},
		{name: "finished", end: func(g *guardian) { assert.NoError(t, g.term.finish()) }},
		{name: "past the deadline, which the timer has not noticed", end: func(g *guardian) {
			g.term.timer.Stop()
			time.Sleep(usable)
		}},
		{name: "another term", end: (*guardian).begin, pass: true},
		{name: "another term, an earlier one named", end: (*guardian).begin, ctx: (*guardian).named},
		{
			name: "no term any more, one named", end: func(g *guardian) { g.Guard.term.Store(nil) },
			ctx: (*guardian).named,
		},
		{name: "the term of another lease named", ctx: func(_ *guardian, ctx context.Context) context.Context {
			return newGuardian(ok, GuardConfig{}).named(ctx)
		}, pass: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuardian(ok, GuardConfig{})
				ctx := t.Context()
				if c.ctx != nil {
					ctx = c.ctx(g, ctx)
				}
				first := g.term
				if c.end != nil {
					c.end(g)
				}
				r, body := request(ctx, http.MethodPost, pods)
				_, err := g.RoundTrip(r)
				if c.pass {
					require.NoError(t, err)
					assert.EqualValues(t, 1, g.sent.Load())
				} else {
					require.ErrorIs(t, err, errNotHeld)
					require.NotErrorIs(t, err, lease.ErrOutcomeUnknown)
					requireFinal(t, err)
					assert.ErrorContains(t, err, name.String())
					assert.Zero(t, g.sent.Load())
					assert.True(t, body.closed)
				}
				assert.NoError(t, g.do(ctx, http.MethodGet, pods), "reading is free")
				assert.NoError(t, g.do(own(ctx), http.MethodPut, pods), "so is what keeps the term")
				_ = g.term.finish()
				_ = first.finish()
			})
		})
	}
}

func TestAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const token = "/api/v1/namespaces/ns/serviceaccounts/sa/token"
		asked := 0
		g := newGuardian(ok, GuardConfig{Allow: func(r *http.Request) bool {
			asked++
			return r.URL.Path == token
		}})
		require.NoError(t, g.term.finish())
		assert.NoError(t, g.do(t.Context(), http.MethodPost, token))
		assert.ErrorIs(t, g.do(t.Context(), http.MethodPost, pods), errNotHeld)
		assert.Equal(t, 2, asked)
		assert.NoError(t, g.do(t.Context(), http.MethodGet, pods))
		assert.NoError(t, g.do(own(t.Context()), http.MethodPost, pods))
		assert.Equal(t, 2, asked, "only about what is guarded")
	})
}

type timeoutError struct{ error }

func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

func TestRequestUnderWayIsCutOff(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		name string
		err  error // of the transport when the request ends
		sent bool
	}{
		{"the context's", nil, true},
		{"a timeout", timeoutError{errors.New("timeout")}, true},
		{"the end of a connection", io.EOF, true},
		{"a broken connection", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, true},
		{"no connection", &url.Error{Op: "Post", Err: dial}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuardian(func(r *http.Request) (*http.Response, error) {
					_, err := stuck(r)
					if c.err != nil {
						err = c.err
					}
					return nil, err
				}, GuardConfig{})
				for n := range 4 {
					ctx, cancel := context.WithCancelCause(t.Context())
					if n%2 == 0 {
						ctx = g.named(ctx)
					}
					if n == 0 { // as that of the work, which ends at the same time
						require.True(t, g.term.begin(cancel))
					}
					go func() {
						defer cancel(nil)
						err := g.do(ctx, http.MethodPut, pods+"/p")
						assert.True(t, g.term.Lost())
						assert.ErrorIs(t, err, errNotHeld)
						assert.Equal(t, c.sent, errors.Is(err, lease.ErrOutcomeUnknown))
						requireFinal(t, err)
						g.sent.Add(-1)
					}()
				}
				synctest.Wait()
				require.EqualValues(t, 4, g.sent.Load())
				g.term.lose(fmt.Errorf("%w: %w", lease.ErrDeadline, io.EOF), "b")
				synctest.Wait()
				assert.Zero(t, g.sent.Load(), "at once")
				assert.Zero(t, g.flying())
				assert.Zero(t, g.term.open.flying)
			})
		})
	}
}

func TestDeadlineOfARequestMovesWithTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuardian(stuck, GuardConfig{})
		begin := time.Now()
		go func() {
			time.Sleep(usable / 2)
			g.term.extend(g.term.clock.Now())
		}()
		assert.ErrorIs(t, g.do(t.Context(), http.MethodPost, pods), lease.ErrOutcomeUnknown)
		assert.Equal(t, usable*3/2, time.Since(begin))
	})
}

func TestErrorsOfTheTransportPassWhileTheTermIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuardian(func(*http.Request) (*http.Response, error) { return nil, io.EOF }, GuardConfig{})
		assert.Equal(t, io.EOF, g.do(t.Context(), http.MethodPost, pods))
		g.base = stuck
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.Equal(t, context.DeadlineExceeded, g.do(ctx, http.MethodPost, pods))
		assert.Equal(t, 1, g.flying(), "it may be answered yet")
		time.Sleep(g.term.timing.Margin)
		synctest.Wait()
		assert.Zero(t, g.flying())
		left := func() time.Duration {
			wait, _ := g.term.open.rest(g.term.clock.Now(), 3*time.Second)
			return wait
		}
		assert.Equal(t, usable+3*time.Second, left(), "may still be carried out")

		time.Sleep(time.Second)
		refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		g.base = func(*http.Request) (*http.Response, error) { return nil, refused }
		assert.Equal(t, refused, g.do(t.Context(), http.MethodPost, pods))
		assert.Equal(t, usable+2*time.Second, left(), "will not be")
		require.NoError(t, g.term.finish())
	})
}

func TestAnswerThatTheServerGaveUpLeavesTheOutcomeUnknown(t *testing.T) {
	for code, abandoned := range map[int]bool{
		http.StatusCreated: false, http.StatusConflict: false, http.StatusTooManyRequests: false,
		http.StatusInternalServerError: true, http.StatusBadGateway: true, http.StatusGatewayTimeout: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuardian(answer(code, http.NoBody), GuardConfig{})
			require.NoError(t, g.do(t.Context(), http.MethodPost, pods))
			wait, _ := g.term.open.rest(g.term.clock.Now(), time.Second)
			assert.Equal(t, abandoned, wait > 0, code)
			require.NoError(t, g.term.finish())
		})
	}
}

// endless is a body that has no end of its own.
type endless struct {
	ctx    context.Context //nolint:containedctx // a transport's body ends with the context of its request
	closed chan struct{}
}

func (b *endless) Read([]byte) (int, error) {
	select {
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	case <-b.closed:
		return 0, errors.New("read on closed body")
	}
}

func (b *endless) Close() error {
	close(b.closed)
	return nil
}

func streaming(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: &endless{r.Context(), make(chan struct{})}, Request: r}, nil
}

func TestBodyIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuardian(streaming, GuardConfig{})
		read := make(chan error)
		go func() { read <- g.do(t.Context(), http.MethodGet, pods+"/p/proxy/logs") }()
		synctest.Wait()
		require.Equal(t, 1, g.flying())
		assert.Zero(t, g.term.open.flying)
		g.term.lose(lease.ErrTaken, "b")
		err := <-read
		assert.ErrorIs(t, err, errNotHeld)
		assert.ErrorIs(t, err, lease.ErrOutcomeUnknown)
		requireFinal(t, err)
	})
}

func TestBodyReleasesItsRequest(t *testing.T) {
	for _, c := range []struct {
		name string
		body func() io.ReadCloser
		end  func(t *testing.T, b io.ReadCloser)
	}{
		{"none", func() io.ReadCloser { return http.NoBody }, func(t *testing.T, b io.ReadCloser) {
			assert.Equal(t, http.NoBody, b)
		}},
		{"nil", func() io.ReadCloser { return nil }, func(t *testing.T, b io.ReadCloser) { assert.Nil(t, b) }},
		{"read to its end", nil, func(t *testing.T, b io.ReadCloser) {
			data, err := io.ReadAll(b)
			assert.NoError(t, err)
			assert.Equal(t, "{}", string(data))
		}},
		{"closed", nil, func(t *testing.T, b io.ReadCloser) {
			assert.NoError(t, b.Close())
			assert.NoError(t, b.Close())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ctx context.Context
				g := newGuardian(func(r *http.Request) (*http.Response, error) {
					ctx = r.Context()
					b := io.ReadCloser(&body{Reader: strings.NewReader("{}")})
					if c.body != nil {
						b = c.body()
					}
					return answer(http.StatusOK, b)(r)
				}, GuardConfig{})
				r, _ := request(t.Context(), http.MethodPost, pods)
				resp, err := g.RoundTrip(r)
				require.NoError(t, err)
				if c.body == nil {
					require.Equal(t, 1, g.flying())
					require.NoError(t, ctx.Err(), "before the body has been read")
				}
				c.end(t, resp.Body)
				assert.Zero(t, g.flying())
				assert.Error(t, ctx.Err())
				require.NoError(t, g.term.finish())
			})
		})
	}
}

func TestWatchIsNotTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got *http.Request
		g := newGuardian(func(r *http.Request) (*http.Response, error) {
			got = r
			return streaming(r)
		}, GuardConfig{})
		r, _ := request(t.Context(), http.MethodGet, pods+"?watch=true")
		resp, err := g.RoundTrip(r)
		require.NoError(t, err)
		assert.Same(t, r, got)
		assert.IsType(t, &endless{}, resp.Body)
		assert.Zero(t, g.flying())
		require.NoError(t, g.term.finish())
	})
}

// connection is the body of an upgraded request.
type connection struct {
	bytes.Buffer
	closed atomic.Bool
}

func (c *connection) Close() error {
	c.closed.Store(true)
	return nil
}

func TestUpgradedConnectionIsClosedWithTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &connection{}
		g := newGuardian(answer(http.StatusSwitchingProtocols, conn), GuardConfig{})
		r, _ := request(t.Context(), http.MethodGet, pods+"/p/exec?command=ls")
		resp, err := g.RoundTrip(r)
		require.NoError(t, err)
		body, ok := resp.Body.(io.ReadWriteCloser)
		require.True(t, ok, "both directions")
		_, err = body.Write([]byte("hello"))
		require.NoError(t, err)
		require.ErrorIs(t, body.(interface{ CloseWrite() error }).CloseWrite(), http.ErrNotSupported, "by this one")
		synctest.Wait()
		assert.False(t, conn.closed.Load())
		g.term.lose(lease.ErrTaken, "b")
		synctest.Wait()
		assert.True(t, conn.closed.Load())

		g.begin()
		late := &connection{}
		g.base = func(r *http.Request) (*http.Response, error) {
			g.term.lose(lease.ErrTaken, "b")
			return answer(http.StatusSwitchingProtocols, late)(r)
		}
		_, err = g.RoundTrip(r)
		assert.ErrorIs(t, err, lease.ErrOutcomeUnknown, "lost while it was upgraded")
		assert.True(t, late.closed.Load())

		g.begin()
		g.base = answer(http.StatusSwitchingProtocols, http.NoBody) // as of client-go's SPDY transport
		resp, err = g.RoundTrip(r)
		require.NoError(t, err)
		assert.Equal(t, http.NoBody, resp.Body)
		assert.Zero(t, g.flying())
		require.NoError(t, g.term.finish())
	})
}

func TestClosedUpgradedConnectionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuardian(nil, GuardConfig{})
		for range 100 {
			conn := &connection{}
			r, _ := request(t.Context(), http.MethodGet, pods+"/p/exec?command=ls")
			g.base = answer(http.StatusSwitchingProtocols, conn)
			resp, err := g.RoundTrip(r)
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Len(t, g.term.requests, 1, "the other direction may go on")
			require.NoError(t, resp.Body.Close())
			assert.True(t, conn.closed.Load())
		}
		assert.Zero(t, g.flying())
		require.NoError(t, g.term.finish())
	})
}

func TestServerGivesUpWhenTheTermEnds(t *testing.T) {
	for _, c := range []struct {
		name, method, path string
		left               time.Duration
		opt                bool
		want               string // of the query
	}{
		{"a write", http.MethodPost, pods, usable, false, "timeout=12s"},
		{
			"beside other parameters", http.MethodPatch, pods + "/p?fieldManager=x&force=true", usable, false,
			"fieldManager=x&force=true&timeout=12s",
		},
		{"rounded down", http.MethodPut, pods + "/p", 2999999999, false, "timeout=2.999s"},
		{"less than a second", http.MethodDelete, pods + "/p", 700 * time.Millisecond, false, "timeout=700ms"},
		{"never to zero", http.MethodDelete, pods, time.Microsecond, false, "timeout=1%C2%B5s"},
		{"a shorter one stays", http.MethodPost, pods + "?timeout=1s", usable, false, "timeout=1s"},
		{"a longer one does not", http.MethodPost, pods + "?timeout=1m&x=y", usable, false, "timeout=12s&x=y"},
		{"nor one that is none", http.MethodPost, pods + "?timeout=0s", usable, false, "timeout=12s"},
		{"nor a negative one", http.MethodPost, pods + "?timeout=-1s", usable, false, "timeout=12s"},
		{"nor an empty one", http.MethodPost, pods + "?timeout=", usable, false, "timeout=12s"},
		{"the first of several counts", http.MethodPost, pods + "?timeout=1m&timeout=1s", usable, false, "timeout=12s"},
		{"what the server refuses stays", http.MethodPost, pods + "?timeout=30", usable, false, "timeout=30"},
		{"a hidden one", http.MethodPost, pods + "?time%6Fut=1m", usable, false, "timeout=12s"},
		{"turned off", http.MethodPost, pods, usable, true, ""},
		{"a read", http.MethodGet, pods, usable, false, ""},
		{"a dry run", http.MethodPost, pods + "?dryRun=All", usable, false, "dryRun=All"},
		{"what the parameter would reach", http.MethodPost, pods + "/p/proxy/x", usable, false, ""},
		{"a command", http.MethodPost, pods + "/p/exec?command=ls", usable, false, "command=ls"},
		{"not the API", http.MethodPost, "/anything", usable, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := ""
				g := newGuardian(func(r *http.Request) (*http.Response, error) {
					got = r.URL.RawQuery
					return ok(r)
				}, GuardConfig{NoServerTimeout: c.opt})
				time.Sleep(usable - c.left)
				r, _ := request(t.Context(), c.method, c.path)
				before := r.URL.String()
				_, err := g.RoundTrip(r)
				require.NoError(t, err)
				assert.Equal(t, c.want, got)
				assert.Equal(t, before, r.URL.String(), "the caller's request is as it was")
				require.NoError(t, g.term.finish())
			})
		})
	}
}

func TestGuardShowsTheTransportItWraps(t *testing.T) {
	base := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13}}
	got, err := utilnet.TLSClientConfig(newGuard(name, errNotHeld, GuardConfig{}).Wrap(base))
	require.NoError(t, err)
	assert.Same(t, base.TLSClientConfig, got)
}

func BenchmarkGuard(b *testing.B) {
	for _, c := range []struct {
		name, method string
		config       GuardConfig
	}{
		{"read", http.MethodGet, GuardConfig{}},
		{"write", http.MethodPut, GuardConfig{}},
		{"write without server timeout", http.MethodPut, GuardConfig{NoServerTimeout: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			resp := &http.Response{StatusCode: http.StatusOK}
			g := newGuard(name, errNotHeld, c.config)
			system := clock.System()
			term := newTerm(Config{
				Lease: name, Timing: lease.Timing{Duration: time.Hour}.WithDefaults(), Clock: system,
				OnLost: func(*lease.LostError) {},
			}, g, system.Now())
			g.term.Store(term)
			transport := g.Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
				resp.Body = io.NopCloser(strings.NewReader("{}"))
				return resp, nil
			}))
			r, _ := request(b.Context(), c.method, pods+"/p?fieldManager=x")
			b.ReportAllocs()
			for b.Loop() {
				resp, err := transport.RoundTrip(r)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			_ = term.finish()
		})
	}
}
