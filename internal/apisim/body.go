package apisim

import (
	"io"
	"sync"
	"time"
)

// streamBody is the body of a watch: writers never block, the reader waits on channels and timers
// of the bubble. Every chunk becomes readable after the lag that the client's connection had when
// it was written.
type streamBody struct {
	client *Client
	ended  chan struct{} // closed by end

	abandon   sync.Once
	abandoned chan struct{} // closed when the client has hung up

	mu     sync.Mutex
	chunks []chunk
	err    error         // what the reader gets after the last chunk; nil while the stream is open
	news   chan struct{} // capacity 1: chunks or err have changed
}

type chunk struct {
	data []byte
	due  time.Time
}

func newStream(c *Client) *streamBody {
	return &streamBody{
		client: c, ended: make(chan struct{}), abandoned: make(chan struct{}),
		news: make(chan struct{}, 1),
	}
}

// send writes a chunk unless the stream has ended, because a bookmark after that would claim that
// nothing was missed.
func (b *streamBody) send(data []byte) {
	due := time.Now().Add(b.client.lag())
	b.mu.Lock()
	if b.err != nil {
		b.mu.Unlock()
		return
	}
	if n := len(b.chunks); n > 0 && b.chunks[n-1].due.After(due) {
		due = b.chunks[n-1].due // a connection keeps the order
	}
	b.chunks = append(b.chunks, chunk{data, due})
	b.mu.Unlock()
	b.wake()
}

// end closes the stream, with io.EOF if err is nil.
func (b *streamBody) end(err error) {
	if err == nil {
		err = io.EOF
	}
	b.mu.Lock()
	if b.err == nil {
		b.err = err
		close(b.ended)
	}
	b.mu.Unlock()
	b.wake()
}

func (b *streamBody) wake() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// Read implements io.Reader.
func (b *streamBody) Read(p []byte) (int, error) {
	for {
		b.client.awaitResume()
		select {
		case <-b.abandoned:
			b.mu.Lock()
			defer b.mu.Unlock()
			return 0, b.err
		default:
		}
		if silenced := b.client.silenced(); silenced != nil {
			select {
			case <-silenced:
			case <-b.abandoned:
			}
			continue
		}
		b.mu.Lock()
		var wait time.Duration
		if len(b.chunks) > 0 {
			if wait = time.Until(b.chunks[0].due); wait <= 0 {
				n := copy(p, b.chunks[0].data)
				if b.chunks[0].data = b.chunks[0].data[n:]; len(b.chunks[0].data) == 0 {
					b.chunks = b.chunks[1:]
				}
				b.mu.Unlock()
				return n, nil
			}
		} else if b.err != nil {
			defer b.mu.Unlock()
			return 0, b.err
		}
		b.mu.Unlock()

		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-b.news:
		case <-due:
		case <-b.abandoned: // its news may have been taken before
		}
	}
}

// Close implements io.Closer.
func (b *streamBody) Close() error {
	b.hangUp(nil)
	return nil
}

// hangUp ends the stream from the client's side.
func (b *streamBody) hangUp(err error) {
	b.end(err)
	b.abandon.Do(func() { close(b.abandoned) })
}
