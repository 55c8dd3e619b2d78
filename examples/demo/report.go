package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	width    = 80               // columns of a terminal
	reminder = 10 * time.Second // between two assurances that something is still being done
)

// report prints the output of the demo as plain text, with no line wider than a terminal. It is
// safe for concurrent use.
type report struct {
	mu  sync.Mutex
	out io.Writer // guarded by mu
}

// paragraph prints a text.
func (r *report) paragraph(format string, args ...any) {
	r.print("", fmt.Sprintf(format, args...), "")
}

// line prints a text after first, and indents further lines below the text.
func (r *report) line(first, format string, args ...any) {
	r.print(first, fmt.Sprintf(format, args...), strings.Repeat(" ", len(first)))
}

// hanging prints a text and indents all lines but the first.
func (r *report) hanging(text string) { r.print("", text, "  ") }

func (r *report) print(first, text, indent string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintln(r.out, first+strings.Join(wrap(text, width-len(first), width-len(indent)), "\n"+indent))
}

// lines prints a text that is already in lines.
func (r *report) lines(text string) {
	for line := range strings.Lines(text) {
		r.hanging(strings.TrimSuffix(line, "\n"))
	}
}

// Write prints whole lines from other writers.
func (r *report) Write(text []byte) (int, error) {
	r.lines(string(text))
	return len(text), nil
}

// during prints what is being done, and repeats it while it takes long.
func (r *report) during(what string, do func() error) error {
	r.paragraph("%s.", what)
	done := make(chan error, 1)
	begun := time.Now()
	go func() { done <- do() }()
	again := time.NewTicker(reminder)
	defer again.Stop()
	for {
		select {
		case err := <-done:
			return err
		case now := <-again.C:
			r.paragraph("  ... still at it, for %.0f s", now.Sub(begun).Seconds())
		}
	}
}

// wrap breaks a text between words, into a first line and others with at most this many columns.
// Text in columns stays so if it fits. A wider word, such as a path, gets its own line. Control
// characters become blanks.
func wrap(text string, first, others int) []string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
	if columnsOf(text) <= first {
		return []string{text}
	}
	var lines []string
	room, line := first, ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case columnsOf(line)+1+columnsOf(word) <= room:
			line += " " + word
		default:
			lines = append(lines, line)
			room, line = others, word
		}
	}
	return append(lines, line)
}

func columnsOf(text string) int { return len([]rune(text)) }
