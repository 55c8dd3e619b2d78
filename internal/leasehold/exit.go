package leasehold

import (
	"errors"
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// Exit returns a function that logs message with the error and ends the process with
// [process.ExitCode]. If the work's own error is the reason, it logs that instead of message.
func Exit(logger *zap.Logger, message string) func(error) {
	return func(err error) {
		process.Exit(func() {
			if logger == nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			logger.Error(exitReason(message, err)+": ending the process",
				zap.Error(err), zap.Int("exitCode", process.ExitCode))
			_ = logger.Sync() // fails on terminals
		})
	}
}

// exitReason returns message, unless the work's own error is the reason.
func exitReason(message string, err error) string {
	if errors.Is(err, lease.ErrUnfinished) {
		return "the work has failed"
	}
	return message
}
