package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// maxBody is what an API server accepts.
const maxBody = 3 << 20

// readBody reads the body of a request, or returns errTooLarge.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	defer func() { _ = r.Body.Close() }()
	if r.ContentLength > maxBody {
		return nil, errTooLarge
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err == nil && len(data) > maxBody {
		err = errTooLarge
	}
	return data, err
}

// withBody returns a copy of a request with another body.
func withBody(r *http.Request, data []byte) *http.Request {
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	r.Header.Set("Content-Length", strconv.Itoa(len(data)))
	return r
}

// editBody edits the body of an answer.
func editBody(r *http.Response, c codec, f editor) error {
	data, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		return err
	}
	if data, err = c.edit(data, f); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	r.Header.Set("Content-Length", strconv.Itoa(len(data)))
	return nil
}

// edited returns a body that edit writes while it is read. Closing it closes the one that edit reads.
func edited(from io.ReadCloser, edit func(to io.Writer) error) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() { _ = writer.CloseWithError(edit(writer)) }()
	return &stream{reader, from}
}

type stream struct {
	*io.PipeReader
	from io.Closer
}

func (s *stream) Close() error { return errors.Join(s.PipeReader.Close(), s.from.Close()) }

// buffers makes those through which answers are copied. A watch has one as long as it lasts, so they are small.
type buffers struct{}

func (buffers) Get() []byte { return make([]byte, 8<<10) }

func (buffers) Put([]byte) {}

// buffered is a ResponseWriter that keeps the answer, so that a program that reads slowly does not
// hold up a drain.
type buffered struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func newBuffered() *buffered { return &buffered{header: http.Header{}} }

func (b *buffered) Header() http.Header { return b.header }

func (b *buffered) WriteHeader(code int) {
	if code >= http.StatusOK && b.code == 0 { // not 1xx
		b.code = code
	}
}

func (b *buffered) Write(data []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(data)
}

func (b *buffered) sendTo(w http.ResponseWriter) {
	for name, values := range b.header {
		w.Header()[name] = values
	}
	w.WriteHeader(max(b.code, http.StatusOK))
	_, _ = w.Write(b.body.Bytes())
}
