package supervisor

import (
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/leasehold"
)

// Supervisor is the parent of this process. It is safe for concurrent use.
type Supervisor struct {
	page *page        // nil if there is no parent
	why  string       // page is nil
	bind func() error // makes the kernel end this process with its parent

	mu    sync.Mutex
	slots map[types.NamespacedName]*openSlot
	spare []*slot // of forgotten leases
}

// openSlot is the slot of a lease, with the number of times that it was asked for.
type openSlot struct {
	slot  *slot
	users int
}

// Start moves the program to a child process and supervises it. It returns in the child. Call it
// first in main: code before it runs in both processes.
//
// The parent runs the same program as the child (/proc/self/exe, with the same arguments,
// environment, standard input and outputs). It forwards signals and exits with the child's exit
// code, or with 128 plus the number of the signal that ended the child, such as 137 for SIGKILL. If
// it cannot start the child, it prints the error on stderr and exits with 126. It includes what
// ReexecIfPID1 of package leaderelection does, so a program needs only one of them.
//
// Consequences:
//
//   - There are two processes, and the second one's short name in the kernel, as in ps, is "exe".
//   - Only the standard file descriptors are passed on.
//   - The child is in a process group of its own, so it gets only once what is sent to the parent
//     or to the parent's group, as by dumb-init, tini -g, timeout, bellwether run and the keys of a
//     terminal. It cannot read from a terminal, unless the parent is PID 1.
//   - systemd signals every process of a unit by default, so the child gets a stop twice, and the second
//     one ends programs with controller-runtime's SetupSignalHandler at once. Set KillMode=mixed.
//   - SIGSTOP cannot be forwarded, so sent to the parent it does not stop the child. Ctrl-Z stops
//     both.
//
// With the environment variable BELLWETHER_SUPERVISOR=off, Start does nothing, as for a debugger or
// for credentials that only this process can use. A second call returns a Supervisor of the same
// parent.
func Start() *Supervisor { return start() }

// Client returns the supervisor as a client of an API server, for the field Supervisor of the
// configurations of leases. Give it the config before LeaseConfig and before any Wrap. A config
// that it cannot use is an error when the lease is made.
func (s *Supervisor) Client(config *rest.Config) *Client {
	return &Client{Open: func(c lease.Claim, log *zap.Logger) (lease.Ledger, func(), error) {
		l, forget, err := s.claim(config, c, log)
		if err != nil {
			return nil, nil, fmt.Errorf("supervisor: %w", err)
		}
		return l, forget, nil
	}}
}

// Client releases leases of this process, when it has died, with the credentials of a config. Its
// field is for the packages of this module.
type Client = leasehold.SupervisorClient

// claim opens the memory that this process shares with its supervisor for one lease. It returns nil
// if there is no supervisor.
func (s *Supervisor) claim(config *rest.Config, c lease.Claim, log *zap.Logger) (lease.Ledger, func(), error) {
	if s == nil {
		return nil, nil, errors.New("must come from supervisor.Start (got nil)")
	}
	if s.page == nil {
		log.Warn("no supervisor: the lease of a process that has died is free when it has expired",
			zap.String("why", s.why))
		return nil, func() {}, nil
	}
	credentials, err := credentialsOf(config)
	if err != nil {
		return nil, nil, err
	}
	if err := s.bind(); err != nil { // again: the user may have changed since Start
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.slots[c.Lease]
	if l == nil {
		l = &openSlot{}
		if n := len(s.spare) - 1; n >= 0 {
			l.slot, s.spare = s.spare[n], s.spare[:n]
		} else if l.slot, err = s.page.open(); err != nil {
			return nil, nil, err
		}
		s.slots[c.Lease] = l
	}
	l.users++
	if err := l.slot.describe(description{c, credentials}); err != nil {
		return nil, nil, err
	}
	return l.slot, func() { s.forget(c.Lease) }, nil
}

// forget undoes one call of claim.
func (s *Supervisor) forget(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.slots[name]
	if l.users--; l.users == 0 {
		delete(s.slots, name)
		s.spare = append(s.spare, l.slot)
	}
}
