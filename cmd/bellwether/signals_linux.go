package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// signals are those that this process gets. A stop ends it, others are for the program.
type signals struct {
	stop     syscall.Signal          // --stop-signal; 0 if not given
	terminal bool                    // this process has one, and SIGWINCH is about its window
	end      context.CancelCauseFunc // of this process, with an [endError]

	mu      sync.Mutex
	program chan<- syscall.Signal // nil without a program
}

// endError is the signal that has ended a candidate, or a term.
type endError struct {
	signal syscall.Signal
	stop   bool // it is meant as the end
}

func (e endError) Error() string { return e.signal.String() }

// code returns the exit code of a bellwether that has not led. Without a program to pass it to, a signal
// that is no stop has killed it.
func (e endError) code() int {
	if e.stop {
		return 0
	}
	return exitSignal + int(e.signal)
}

// newSignals returns a context that ends with a stop, or in a candidate with a signal that is for the program.
func newSignals(parent context.Context, stop syscall.Signal) (context.Context, *signals) {
	ctx, end := context.WithCancelCause(parent)
	s := &signals{stop: stop, end: end}
	if terminal, err := os.Open("/dev/tty"); err == nil {
		s.terminal = true
		_ = terminal.Close()
	}
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) // the end of the reader of the log does not end the term
	received := make(chan os.Signal, 128)                // more than there are: os/signal drops what does not fit
	signal.Notify(received, relayed()...)
	go func() { // until this process ends
		for got := range received {
			s.sort(got.(syscall.Signal))
		}
	}()
	return ctx, s
}

// relayed returns the signals that may be for the program: all that runtimes and people send. SIGHUP and
// SIGINT stay ignored, here and in the program, if they were at the start, as by nohup.
func relayed() (all []os.Signal) {
	for n := syscall.Signal(1); n <= rtMax; n++ {
		if relays(n) && !signal.Ignored(n) {
			all = append(all, n)
		}
	}
	return all
}

// relays reports whether a signal may be for the program. The others concern this process: faults, its
// children, job control.
func relays(s syscall.Signal) bool {
	switch s {
	case unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGTERM,
		unix.SIGVTALRM, unix.SIGWINCH, unix.SIGIO, unix.SIGPWR:
		return true
	}
	return s >= rtMin && s <= rtMax
}

// The real-time signals that programs may use, as libraries and runtimes of containers count them.
const rtMin, rtMax syscall.Signal = 34, 64

func (s *signals) sort(received syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case received == s.stop, received == unix.SIGTERM, received == unix.SIGINT:
		s.end(endError{received, true})
	case received == unix.SIGWINCH && s.terminal:
	case s.program != nil:
		select {
		case s.program <- received:
		default:
		}
	case received == unix.SIGHUP: // read the configuration again: the program will when it starts
	default:
		s.end(endError{received, false})
	}
}

// lead returns those for the program from now on.
func (s *signals) lead() <-chan syscall.Signal {
	program := make(chan syscall.Signal, 16)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.program = program
	return program
}

// stopOf returns the signal that asks the program to end, for this reason.
func (s *signals) stopOf(cause error) syscall.Signal {
	var end endError
	switch {
	case s.stop != 0:
		return s.stop
	case errors.As(cause, &end):
		return end.signal
	}
	return unix.SIGTERM
}

// signalOf returns the signal of this name or number, as in STOPSIGNAL of an image.
func signalOf(name string) (syscall.Signal, error) {
	short := strings.TrimPrefix(strings.ToUpper(name), "SIG")
	found := unix.SignalNum("SIG" + short)
	if n, err := strconv.Atoi(short); err == nil {
		found = syscall.Signal(n)
	}
	for base, at := range map[string]syscall.Signal{"RTMIN": rtMin, "RTMAX": rtMax} {
		rest, ok := strings.CutPrefix(short, base)
		offset, err := strconv.Atoi(rest)
		switch {
		case ok && rest == "":
			found = at
		case ok && err == nil && strings.ContainsAny(rest[:1], "+-"):
			found = at + syscall.Signal(offset)
		}
	}
	if !relays(found) {
		return 0, fmt.Errorf("must be the name or the number of a signal that can be passed on (got %q)", name)
	}
	return found, nil
}
