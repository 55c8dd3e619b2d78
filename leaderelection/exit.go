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

// lastWords is how long the message may take to be written. A full pipe must not keep a deposed leader alive.
const lastWords = 50 * time.Millisecond

// exit returns the default OnLost. It chases no goroutine: the end of the process ends them all at once.
func exit(logger *zap.Logger) func(error) {
	return func(err error) {
		written := make(chan struct{})
		go func() {
			defer close(written)
			if logger == nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			logger.Error("not the leader any more: ending the process", zap.Error(err), zap.Int("exitCode", ExitCodeNotLeader))
			_ = logger.Sync() // fails on terminals
		}()
		select {
		case <-written:
		case <-time.After(lastWords):
		}
		os.Exit(ExitCodeNotLeader)
	}
}
