package shardlease

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// LeaseConfig returns a copy of config for the client of a [Lease]: with a connection and without a rate limit of its own, as package
// leaderelection's. One client can serve a process' lease and its elector.
func LeaseConfig(config *rest.Config) *rest.Config { return nil }

// Check is a health check with the signature of controller-runtime's healthz.Checker, fit for a liveness probe. It answers at once, sends
// no request, and ignores its argument. It returns an error from the end of a term that was lost, or whose deadline has passed
// unnoticed, until the work has ended: a restart mends it. Otherwise it returns nil, also while Run waits for the lease.
func (l *Lease) Check(*http.Request) error { return nil }

// ExitCodeNotHeld is the exit code of a process that has lost its lease (EX_TEMPFAIL of sysexits.h), as package leaderelection's.
const ExitCodeNotHeld = 75

// ReexecIfPID1 moves the program to another process if this one is PID 1 of a pid namespace: that of package leaderelection. Call it
// first in main; a second call does nothing.
func ReexecIfPID1() {}
