package shardlease

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// LeaseConfig returns a copy of config for the client of a [Lease]: with a connection and without a
// rate limit of its own, as package leaderelection's. One client can serve a process' lease and its
// elector.
func LeaseConfig(config *rest.Config) *rest.Config { return lease.ClientConfig(config) }

// Check is a health check with the signature of controller-runtime's healthz.Checker, fit for a
// liveness probe. It answers at once, sends no request, and ignores its argument. It returns an
// error from the end of a term that was lost, or whose deadline has passed unnoticed, until the
// work has ended: a restart mends it. Otherwise it returns nil, also while Run waits for the lease.
func (l *Lease) Check(*http.Request) error {
	l.mu.Lock()
	t := l.running
	l.mu.Unlock()
	if t == nil {
		return nil
	}
	if err := t.holder.Expired(); err != nil {
		return fmt.Errorf("shardlease: %w", err)
	}
	return nil
}

// ExitCodeNotHeld is the exit code of a process that has lost its lease (EX_TEMPFAIL of
// sysexits.h), as package leaderelection's.
const ExitCodeNotHeld = process.ExitCode

// ReexecIfPID1 moves the program to another process if this one is PID 1 of a pid namespace: that
// of package leaderelection. Call it first in main; a second call does nothing.
func ReexecIfPID1() { process.ReexecIfPID1() }
