package e2e

import (
	"context"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/transport"
)

// LateWatches returns a wrapper for the transport of a client whose watches show everything late. It
// calls lag with each piece that arrives. The order stays the same.
func LateWatches(lag func() time.Duration) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper { return laggard{next, lag} }
}

type laggard struct {
	next http.RoundTripper
	lag  func() time.Duration
}

func (l laggard) RoundTrip(q *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(q)
	if err == nil && q.URL.Query().Get("watch") == "true" {
		resp.Body = newLateBody(q.Context(), resp.Body, l.lag)
	}
	return resp, err
}

// lateBody delivers what arrives after a lag, in its order.
type lateBody struct {
	io.ReadCloser
	ended  <-chan struct{} // the request
	chunks chan lateChunk
	rest   []byte // of the last chunk
}

type lateChunk struct {
	data []byte
	err  error
	due  time.Time
}

func newLateBody(request context.Context, body io.ReadCloser, lag func() time.Duration) *lateBody {
	b := &lateBody{ReadCloser: body, ended: request.Done(), chunks: make(chan lateChunk, 100)}
	go func() {
		for {
			data := make([]byte, 4096)
			n, err := body.Read(data)
			select {
			case b.chunks <- lateChunk{data[:n], err, time.Now().Add(lag())}:
			case <-b.ended:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return b
}

func (b *lateBody) Read(p []byte) (int, error) {
	var c lateChunk
	if len(b.rest) == 0 {
		select {
		case c = <-b.chunks:
		case <-b.ended:
			return 0, context.Canceled
		}
		select {
		case <-time.After(time.Until(c.due)):
		case <-b.ended:
			return 0, context.Canceled
		}
		b.rest = c.data
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, c.err
}
