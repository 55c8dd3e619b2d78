package leaderelection

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
)

// ExitCodeNotLeader is the exit code of a process that has lost its leadership (EX_TEMPFAIL of sysexits.h). Whatever supervises
// the process should start it again.
const ExitCodeNotLeader = 75

// lastWords is how long what is to be said at the end may take. A full pipe must not keep a deposed leader alive.
const lastWords = 50 * time.Millisecond

// say calls words, and returns when they have been said or have taken too long.
func say(words func()) {
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

// exit returns the default OnLost. It chases no goroutine: the end of the process ends them all at once.
func exit(logger *zap.Logger) func(error) {
	return func(err error) {
		say(func() {
			if logger == nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			logger.Error("not the leader any more: ending the process", zap.Error(err), zap.Int("exitCode", ExitCodeNotLeader))
			_ = logger.Sync() // fails on terminals
		})
		os.Exit(ExitCodeNotLeader)
	}
}
