package fenceagents

import (
	"errors"
	"io"
	"os"
	"time"
)

// patience is how long a killed program may take to be gone. A program that waits for a disk may
// take forever.
const patience = 5 * time.Second

// Maximum lengths of the kept output of a program, in bytes.
const (
	maxOutput = 1 << 20
	maxTail   = 64 << 10
)

// outcome is how a program has ended by itself.
type outcome struct {
	code      int
	stdout    []byte
	truncated bool // stdout is incomplete
	stderr    tail
}

// head keeps the beginning of what is written to it, so that a program with endless output does not
// fill the memory.
type head struct {
	kept    []byte
	dropped bool
}

func (h *head) Write(p []byte) (int, error) {
	room := maxOutput - len(h.kept)
	if len(p) > room {
		h.dropped = true
	}
	h.kept = append(h.kept, p[:min(room, len(p))]...)
	return len(p), nil
}

// tail keeps the end of what is written to it.
type tail struct {
	kept    []byte
	dropped bool
}

func (t *tail) Write(p []byte) (int, error) {
	written := len(p)
	if len(p) > maxTail {
		p, t.dropped = p[len(p)-maxTail:], true
	}
	if excess := len(t.kept) + len(p) - maxTail; excess > 0 {
		t.kept, t.dropped = append(t.kept[:0], t.kept[excess:]...), true
	}
	t.kept = append(t.kept, p...)
	return written, nil
}

// stream is one output of a program.
type stream struct {
	reader, writer *os.File
	done           chan error
}

// newStream passes what is written to its writer to a sink.
func newStream(sink io.Writer) (*stream, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s := &stream{reader: reader, writer: writer, done: make(chan error, 1)}
	go func() {
		_, err := io.Copy(sink, reader)
		s.done <- err
	}()
	return s, nil
}

// finish returns when the sink has everything. It reports whether another process still holds the
// writer after patience.
func (s *stream) finish(patience time.Duration) (held bool) {
	_ = s.writer.Close()
	_ = s.reader.SetReadDeadline(time.Now().Add(patience))
	held = errors.Is(<-s.done, os.ErrDeadlineExceeded)
	_ = s.reader.Close()
	return held
}
