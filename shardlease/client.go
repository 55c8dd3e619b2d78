package shardlease

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/leasehold"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// LeaseConfig returns a copy of config for the client of a [Lease], with its own connection and
// without a rate limit, as in package leaderelection. A process can use one client for its lease
// and its elector.
func LeaseConfig(config *rest.Config) *rest.Config { return leasehold.ClientConfig(config) }

// Check is a liveness check with the signature of controller-runtime's healthz.Checker. It returns
// at once without sending a request, and ignores its argument. It returns an error while the work
// of a finished term runs, from a loss or a missed deadline on, because a restart helps then. With
// [Config].MaxFailing, it also returns one while the requests of a shard that waits for its lease
// have failed for that long. Otherwise it returns nil, even while Run waits for the lease.
func (l *Lease) Check(*http.Request) error {
	if err := l.candidate.Check(); err != nil {
		return fmt.Errorf("shardlease: %w", err)
	}
	return nil
}

// ExitCodeNotHeld is the exit code of a process that has lost its lease: 75, EX_TEMPFAIL of
// sysexits.h. Package leaderelection has the same.
const ExitCodeNotHeld = process.ExitCode

// ReexecIfPID1 moves the program to a child process if this one is PID 1 of a pid namespace, as in
// package leaderelection. Call it first in main. A second call does nothing.
func ReexecIfPID1() { process.ReexecIfPID1() }

// WrapTransport guards a client, whose writes fail with [ErrNotHeld] while this process does not
// hold the lease. Pass it to Wrap of a [k8s.io/client-go/rest.Config] before other wrappers, so
// that it is innermost. Create the lease's own client first, from the unguarded config.
//
// Which requests are guarded, and how they end with the term, is as in package leaderelection.
func (l *Lease) WrapTransport(base http.RoundTripper) http.RoundTripper {
	return l.candidate.Guard.Wrap(base)
}

// WrapOwnTransport is WrapTransport for the client with which the shard itself lets go of objects.
// It does not count for Guarded, so that a program notices if it forgets to guard the clients of
// its work.
func (l *Lease) WrapOwnTransport(base http.RoundTripper) http.RoundTripper {
	return l.candidate.Guard.WrapOwn(base)
}

// OnOutside sets a function that is called with the resource of each write of a guarded client that
// names an object and whose context belongs to no [Term.Scope]; Do of package shard begins such a
// scope for work on an object. The function is called from any goroutine, and must return quickly.
// A second call replaces it.
func (l *Lease) OnOutside(f func(resource schema.GroupResource)) { l.candidate.Guard.OnOutside(f) }

// Guarded reports whether WrapTransport was called, so that work can be guarded.
func (l *Lease) Guarded() bool { return l.candidate.Guard.Installed() }
