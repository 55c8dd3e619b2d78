package ringtest

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
)

// Handled is an http.RoundTripper that calls a handler, as if over a connection without delay.
type Handled struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (h Handled) RoundTrip(r *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	a := &answering{header: http.Header{}, body: bufio.NewWriter(writer), begun: make(chan struct{})}
	ctx, cancel := context.WithCancel(r.Context())
	in := r.Clone(ctx)
	in.RequestURI = r.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	go func() {
		defer cancel()
		h.ServeHTTP(a, in)
		a.WriteHeader(http.StatusOK)
		_ = a.body.Flush()
		_ = writer.Close()
	}()
	select {
	case <-a.begun:
	case <-r.Context().Done(): // what the handler still writes is not read
		_ = reader.Close()
		return nil, r.Context().Err()
	}
	return &http.Response{
		StatusCode: a.code, Status: strconv.Itoa(a.code), Header: a.sent, Body: &answered{reader, cancel}, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
	}, nil
}

// CancelRequest does nothing, because client-go also ends the request's context. client-go
// complains of transports without this method.
func (h Handled) CancelRequest(*http.Request) {}

// answering is the http.ResponseWriter of a handler.
type answering struct {
	header, sent http.Header
	body         *bufio.Writer
	code         int
	begun        chan struct{} // closed when code and sent are set
}

// Header implements http.ResponseWriter.
func (a *answering) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answering) WriteHeader(code int) {
	if a.code == 0 {
		a.code, a.sent = code, a.header.Clone()
		close(a.begun)
	}
}

// Write implements http.ResponseWriter.
func (a *answering) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush implements http.Flusher.
func (a *answering) Flush() {
	a.WriteHeader(http.StatusOK)
	_ = a.body.Flush()
}

// answered is the body of an answer. Closing it breaks the connection, as far as the handler knows.
type answered struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (a *answered) Close() error {
	a.cancel()
	return a.PipeReader.Close()
}
