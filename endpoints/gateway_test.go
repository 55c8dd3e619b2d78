package endpoints_test

import (
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
)

// oddAnswers are what comes from something before the API server, or from one that is starting: none says anything about an object.
var oddAnswers = map[string]oddAnswer{
	"a proxy's page":      {http.StatusNotFound, "text/html", "<html>not here</html>"},
	"a path not served":   {http.StatusNotFound, "text/plain; charset=utf-8", "404 page not found\n"},
	"no such namespace":   {http.StatusNotFound, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"kind":"namespaces","name":"ns"}}`},
	"too many requests":   {http.StatusTooManyRequests, "text/plain", "slow down"},
	"bad gateway":         {http.StatusBadGateway, "text/html", "<html>bad gateway</html>"},
	"a page that is fine": {http.StatusOK, "text/html", "<html>welcome</html>"},
}

type oddAnswer struct {
	code              int
	contentType, body string
}

func (a oddAnswer) response(r *http.Request) *http.Response {
	return &http.Response{
		StatusCode: a.code, Status: http.StatusText(a.code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {a.contentType}}, ContentLength: int64(len(a.body)), Body: io.NopCloser(strings.NewReader(a.body)),
	}
}

// gateway is a proxy between an instance and the API server that answers some requests itself.
type gateway struct {
	next http.RoundTripper

	mu     sync.Mutex
	answer func(*http.Request) *oddAnswer // nil, or nil for a request: it is passed on
	late   bool                           // what it answers it has passed on before
}

func (g *gateway) wrap(next http.RoundTripper) http.RoundTripper {
	g.next = next
	return g
}

// set has it answer requests from now on; late: after the API server has carried them out.
func (g *gateway) set(answer func(*http.Request) *oddAnswer, late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer, g.late = answer, late
}

func (g *gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	answer, late := g.answer, g.late
	g.mu.Unlock()
	var odd *oddAnswer
	if answer != nil {
		odd = answer(r)
	}
	if odd != nil && !late {
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

// asks reports whether a request is one of this method for this resource, such as "GET leases".
func asks(r *http.Request, what string) bool {
	method, resource, _ := strings.Cut(what, " ")
	return r.Method == method && (path.Base(r.URL.Path) == resource || path.Base(path.Dir(r.URL.Path)) == resource)
}
