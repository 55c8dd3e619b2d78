package leasehold

import (
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/internal/process"
)

// Exit returns a function that logs message with the error and ends the process with
// [process.ExitCode].
func Exit(logger *zap.Logger, message string) func(error) {
	return func(err error) {
		process.Exit(func() {
			if logger == nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			logger.Error(message+": ending the process", zap.Error(err), zap.Int("exitCode", process.ExitCode))
			_ = logger.Sync() // fails on terminals
		})
	}
}
