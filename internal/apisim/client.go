package apisim

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// errConnection is the error of a connection that breaks.
var errConnection = errors.New("apisim: connection reset by peer")

// Client is the connection of one replica, with its faults. It implements http.RoundTripper.
type Client struct {
	identity identity
	server   *Server
	json     bool

	mu      sync.Mutex
	faults  Faults
	paused  bool
	severed bool
	changed chan struct{} // closed and replaced when one of the above changes
}

// Faults of a connection. They apply to requests sent while they are set.
type Faults struct {
	// Latency is the time a request takes to the server, and again its answer back. What was sent
	// arrives even if its sender has given up meanwhile.
	Latency time.Duration
	// WatchLag is how late events arrive.
	WatchLag time.Duration
	// LoseRequest makes requests vanish on their way, so that nothing is done and no answer comes.
	LoseRequest func(*http.Request) bool
	// LoseResponse loses answers, although the requests are carried out.
	LoseResponse func(*http.Request) bool
	// Refuse answers requests with a connection error at once.
	Refuse func(*http.Request) bool
	// Throttle answers requests with 429 and the advice to try again after a second.
	Throttle func(*http.Request) bool
	// Odd answers requests as no API server answers for its objects. If nil, the server answers.
	Odd Oddity
	// Silent makes open watches silent, and events wait until it is over.
	Silent bool
}

// Oddity is an answer of something between a client and its API server, or of one that does not
// serve the resource.
type Oddity func(*http.Request) *http.Response // nil if the server answers

// Oddities are a proxy's pages with 404 and 403, an API server's answer for a resource that it does not serve,
// a proxy's page with 502, a login page with 200, and an empty JSON object, which decodes as any object.
var Oddities = []Oddity{
	oddPage(http.StatusNotFound, "text/html", "<html>not here</html>"),
	oddPage(http.StatusNotFound, "text/plain", "404 page not found\n"),
	oddPage(http.StatusForbidden, "text/html", "<html>forbidden</html>"),
	oddPage(http.StatusBadGateway, "text/html", "<html>bad gateway</html>"),
	oddPage(http.StatusOK, "text/html", "<html>log in</html>"),
	oddPage(http.StatusOK, "application/json", "{}"),
}

func oddPage(code int, contentType, text string) Oddity {
	return func(r *http.Request) *http.Response {
		return response(r, code, contentType, io.NopCloser(strings.NewReader(text)), int64(len(text)))
	}
}

// Always is a fault of every request.
func Always(*http.Request) bool { return true }

// Client returns a connection without faults.
func (s *Server) Client(name string) *Client {
	return s.client(identity{user: name})
}

// ClientOf returns a connection of a process of a Pod, as its credentials show.
func (s *Server) ClientOf(pod *corev1.Pod) *Client { return s.client(ofPod(pod)) }

func (s *Server) client(i identity) *Client {
	return &Client{identity: i, server: s, changed: make(chan struct{})}
}

// PreferJSON makes clients send and get JSON, so that a test can read and change what is on the
// wire. Without it, clients of Kubernetes' own resources use Protocol Buffers, which are their
// default and quicker. Call it before Config.
func (c *Client) PreferJSON() { c.json = true }

// Config returns a configuration for any client library. Client-side throttling is off.
func (c *Client) Config() *rest.Config {
	config := &rest.Config{Host: "http://apisim.invalid", Transport: c, QPS: -1, UserAgent: c.identity.user}
	if c.json {
		config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	}
	return config
}

// Path begins the paths of its requests to a [Server.Handler].
func (c *Client) Path() string { return c.identity.path() }

// Inject replaces the faults of the connection.
func (c *Client) Inject(f Faults) { c.change(func() { c.faults = f }) }

// Pause stops the replica as seen from the server, so that it sends and receives nothing more.
// Requests already sent arrive.
func (c *Client) Pause() { c.change(func() { c.paused = true }) }

// Resume ends a pause.
func (c *Client) Resume() { c.change(func() { c.paused = false }) }

// Sever cuts the connection for good: every request fails at once, and every watch ends.
func (c *Client) Sever() {
	c.change(func() { c.severed = true })
	c.server.hangUp(func(w *watch) bool { return w.body.client == c })
}

func (c *Client) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

// silenced returns nil, or a channel that is closed when open watches may send again.
func (c *Client) silenced() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.faults.Silent {
		return c.changed
	}
	return nil
}

// awaitResume returns when the replica is not paused.
func (c *Client) awaitResume() {
	for {
		c.mu.Lock()
		paused, changed := c.paused, c.changed
		c.mu.Unlock()
		if !paused {
			return
		}
		<-changed
	}
}

func (c *Client) lag() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults.WatchLag
}

// RoundTrip implements http.RoundTripper.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	c.awaitResume()
	defer c.awaitResume()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	f, severed := c.faults, c.severed
	c.mu.Unlock()
	if severed || f.Refuse != nil && f.Refuse(r) {
		return nil, &url.Error{Op: r.Method, URL: r.URL.String(), Err: errConnection}
	}
	lost, unanswered := f.LoseRequest != nil && f.LoseRequest(r), f.LoseResponse != nil && f.LoseResponse(r)
	answers := make(chan *http.Response, 1)
	arrive := func() {
		if answer := c.answer(f, r, body); !unanswered {
			answers <- answer
		}
	}
	due := time.Now().Add(f.Latency)
	switch on := travel(r.Context(), f.Latency); {
	case lost:
	case !on:
		time.AfterFunc(time.Until(due), arrive)
	case c.server.order != nil: // the request has to wait for its turn: its sender may give up before
		go arrive()
	default:
		arrive()
	}
	select {
	case answer := <-answers:
		if travel(r.Context(), f.Latency) {
			return answer, nil
		}
	case <-r.Context().Done(): // which also ends the stream of a watch
	}
	return nil, r.Context().Err()
}

// travel takes the time of a way, and returns false if the sender gives up before its end.
func travel(ctx context.Context, latency time.Duration) bool {
	if latency == 0 {
		return true
	}
	timer := time.NewTimer(latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// CancelRequest is for clients with their own timeout, such as that of a rest.Config. The end of the
// request's context then suffices, but client-go complains about transports without this method.
func (c *Client) CancelRequest(*http.Request) {}

func (c *Client) answer(f Faults, r *http.Request, body []byte) *http.Response {
	if f.Odd != nil {
		if odd := f.Odd(r); odd != nil {
			return odd
		}
	}
	if f.Throttle != nil && f.Throttle(r) {
		return throttled(r)
	}
	return c.server.serve(c, r, body)
}

func throttled(r *http.Request) *http.Response {
	answer := refuse(r, inJSON{}, apierrors.NewTooManyRequests("throttled", 1))
	answer.Header.Set("Retry-After", "1")
	return answer
}

func response(r *http.Request, code int, contentType string, body io.ReadCloser, length int64) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: body, ContentLength: length, Request: r,
	}
}
