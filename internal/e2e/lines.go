package e2e

import (
	"bufio"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// lingerTime is how long output is still read after the process has ended and nothing more comes:
// its children may hold the pipe open for ever.
const lingerTime = 500 * time.Millisecond

// lines hands standard output on line by line, and writes it to the log. A nil *lines does nothing.
type lines struct {
	reader *os.File
	log    io.Writer
	onLine func(string)
	ended  atomic.Bool // the process is gone
	done   chan struct{}
}

// newLines also returns the end that the process writes to.
func newLines(log io.Writer, onLine func(string)) (*lines, *os.File, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &lines{reader: reader, log: log, onLine: onLine, done: make(chan struct{})}, writer, nil
}

func (l *lines) start() {
	if l != nil {
		go l.copy()
	}
}

func (l *lines) copy() {
	defer close(l.done)
	buffered := bufio.NewReader(l.reader)
	for {
		line, err := buffered.ReadString('\n')
		if line != "" {
			_, _ = io.WriteString(l.log, line)
			l.onLine(strings.TrimSuffix(line, "\n"))
		}
		if err != nil {
			return
		}
		if l.ended.Load() {
			_ = l.reader.SetReadDeadline(time.Now().Add(lingerTime))
		}
	}
}

// finish is called when the process is gone, and returns when its last line has been handed on.
func (l *lines) finish() {
	if l == nil {
		return
	}
	l.ended.Store(true)
	_ = l.reader.SetReadDeadline(time.Now().Add(lingerTime))
	<-l.done
	l.reader.Close()
}

// close is for a process that did not start.
func (l *lines) close() {
	if l != nil {
		l.reader.Close()
	}
}
