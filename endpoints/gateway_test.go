package endpoints_test

import (
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
)

// oddAnswers do not come from a running API server, and prove nothing about an object.
var oddAnswers = map[string]oddAnswer{
	"a proxy's page": {code: http.StatusNotFound, contentType: "text/html", body: "<html>not here</html>"},
	"a path not served": {
		code: http.StatusNotFound, contentType: "text/plain; charset=utf-8",
		body: "404 page not found\n",
	},
	"no such namespace": {
		code: http.StatusNotFound, contentType: "application/json",
		body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,` +
			`"details":{"kind":"namespaces","name":"ns"}}`,
	},
	"too many requests": {code: http.StatusTooManyRequests, contentType: "text/plain", body: "slow down"},
	"bad gateway":       {code: http.StatusBadGateway, contentType: "text/html", body: "<html>bad gateway</html>"},
	"too large for a proxy": {
		code: http.StatusRequestEntityTooLarge, contentType: "text/html", body: "<html>large</html>",
	},
	"an empty object":     {code: http.StatusOK, contentType: "application/json", body: "{}"},
	"a page that is fine": {code: http.StatusOK, contentType: "text/html", body: "<html>welcome</html>"},
}

type oddAnswer struct {
	code              int
	contentType, body string
	late              bool // it comes after the API server has carried out what it is the answer to
}

func (a oddAnswer) response(r *http.Request) *http.Response {
	return &http.Response{
		StatusCode: a.code, Status: http.StatusText(a.code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Request: r,
		Header:  http.Header{"Content-Type": {a.contentType}}, ContentLength: int64(len(a.body)),
		Body: io.NopCloser(strings.NewReader(a.body)),
	}
}

// gateway is a proxy between an instance and the API server that answers some requests itself.
type gateway struct {
	next http.RoundTripper

	mu     sync.Mutex
	answer func(*http.Request) *oddAnswer // nil, or nil for a request: it is passed on
}

func (g *gateway) wrap(next http.RoundTripper) http.RoundTripper {
	g.next = next
	return g
}

// set makes the gateway answer requests from now on.
func (g *gateway) set(answer func(*http.Request) *oddAnswer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer = answer
}

func (g *gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	answer := g.answer
	g.mu.Unlock()
	var odd *oddAnswer
	if answer != nil {
		odd = answer(r)
	}
	if odd != nil && !odd.late {
		return odd.response(r), nil
	}
	response, err := g.next.RoundTrip(r)
	if odd == nil || err != nil {
		return response, err
	}
	_ = response.Body.Close()
	return odd.response(r), nil
}

// CancelRequest is what client-go expects of a transport.
func (g *gateway) CancelRequest(*http.Request) {}

// asks reports whether a request has this method and resource, for example "GET leases".
func asks(r *http.Request, what string) bool {
	method, resource, _ := strings.Cut(what, " ")
	return r.Method == method && (path.Base(r.URL.Path) == resource || path.Base(path.Dir(r.URL.Path)) == resource)
}
