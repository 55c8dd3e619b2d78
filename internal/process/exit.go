package process

import (
	"os"
	"time"
)

// ExitCode is the exit code of a process that lost its lease (EX_TEMPFAIL of sysexits.h).
const ExitCode = 75

// exitLogTimeout bounds the last log messages. A full pipe must not keep a deposed holder alive.
const exitLogTimeout = 50 * time.Millisecond

// RunWithTimeout calls f in another goroutine. It returns when f returns, or after 50 ms.
func RunWithTimeout(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(exitLogTimeout):
	}
}

// Exit ends the process with [ExitCode]. It first gives logMessages 50 ms, and does not wait for
// other goroutines, which end with the process.
func Exit(logMessages func()) {
	RunWithTimeout(logMessages)
	os.Exit(ExitCode)
}
