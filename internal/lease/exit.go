package lease

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
)

// ExitCode is that of a process that has lost its lease (EX_TEMPFAIL of sysexits.h).
const ExitCode = 75

// lastWords is how long what is to be said at the end may take. A full pipe must not keep a deposed holder alive.
const lastWords = 50 * time.Millisecond

// Say calls words, and returns when they have been said or have taken too long.
func Say(words func()) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		words()
	}()
	select {
	case <-said:
	case <-time.After(lastWords):
	}
}

// Exit returns what ends the process with [ExitCode] after message and the error have been logged, or have taken too long. It chases no
// goroutine: the end of the process ends them all at once.
func Exit(logger *zap.Logger, message string) func(error) {
	return func(err error) {
		Say(func() {
			if logger == nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			logger.Error(message+": ending the process", zap.Error(err), zap.Int("exitCode", ExitCode))
			_ = logger.Sync() // fails on terminals
		})
		os.Exit(ExitCode)
	}
}
