package shardlease

import (
	"context"
	"sync"

	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// Lease is the heartbeat of one shard. Run excludes itself; the other methods may be called at any time.
type Lease struct {
	config    Config
	candidate *lease.Candidate
	guard     *lease.Guard
	busy      sync.Mutex // held by Run

	mu     sync.Mutex
	term   *Term                         // guarded by mu: the latest; nil before the first
	awaits []func(context.Context) error // guarded by mu
}

// New returns the lease of a shard; it sends no request yet. client should be one of its own, made from [LeaseConfig]. The error joins
// one error for every rule that config breaks.
func New(client kubernetes.Interface, config Config) (*Lease, error) { return nil, nil }

// Run acquires the lease, calls work, and renews the lease until work has returned. Then it releases the lease, by which the shard's
// objects go to others at once, and returns what work returned.
//
// work's context ends with ctx or with the lease; in that case its cause is an [ErrLost]. When ctx ends, the lease is kept until work has
// returned, and what [Lease.Await] was given. The lease is released only if all of them returned nil, or exactly the error of
// a context that ended with ctx: work that returns any other error may have left something running, so that is a loss
// ([ErrUnfinished]), which by default ends the process.
//
// If the lease is lost and OnLost returns, Run waits for work to return and acquires the lease anew; work is called again.
// While it waits for the lease, Run gives up if the Lease is none of its ring ([ErrForeign]), or if the API server has
// refused a request that it cannot do without for a whole LeaseDuration; the error names the verb and the Lease.
func (l *Lease) Run(ctx context.Context, work func(context.Context) error) error { return nil }

// Ring is the name of the ring that the shard is in.
func (l *Lease) Ring() string { return l.config.Ring }

// Identity is the name of the shard, of its Lease, and of its holder.
func (l *Lease) Identity() string { return l.config.Identity }

// Namespace is that of the Lease.
func (l *Lease) Namespace() string { return l.config.Namespace }

// Term returns the term that is held now. The error is an ErrNotHeld that says why there is none.
func (l *Lease) Term() (*Term, error) {
	l.mu.Lock()
	t := l.term
	l.mu.Unlock()
	if t == nil {
		return nil, ErrNotHeld
	}
	return t, t.Err()
}

// Await adds something that has to have ended, besides the work function, before the lease is released or acquired anew: Run calls ended
// after work has returned, and keeps the lease until ended has. It refuses new work from then on, waits for what is in flight, and
// returns nil when nothing is. An error keeps Run from releasing ([ErrUnfinished]). ctx ends when the lease is lost.
func (l *Lease) Await(ended func(ctx context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaits = append(l.awaits, ended)
}
