package shard

import (
	"errors"
	"fmt"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

var (
	// ErrNotMine is returned by [Shard.Do] for an object that this shard may not work on: it is another shard's or nobody's, or gone.
	// There is nothing to do: if it becomes this shard's, an event will follow.
	ErrNotMine = errors.New("shard: the object is not this shard's")

	// ErrNotYet is returned by [Shard.Do] for an object that this shard may be allowed to work on soon. Try again a little later: no
	// event need follow.
	ErrNotYet = errors.New("shard: work on the object may not begin yet")

	// ErrUnguarded is returned by [Shard.Do] if no client of this process is guarded by the shard's lease, so that nothing would stop
	// a request of work when the lease is lost: pass WrapTransport of the lease to the Wrap of the rest.Config that the work's
	// clients are made from.
	ErrUnguarded = errors.New("shard: the shard lease guards no client")
)

// errNoCache is the ErrNotYet of which nothing will come unless somebody mends the program.
var errNoCache = fmt.Errorf("%w: no cache of its resource is one of Shard.NewInformer (in controller-runtime: cache.Options.NewInformer) that began after the shard lease was acquired", ErrNotYet)

// cacheState is what the caches show of a root.
type cacheState struct {
	// started says that a cache began with a consistent list in this term. What others show may be older than the term.
	started bool
	// complete says that the caches which show no copy would, if there were one of the version that work is to be done on.
	complete bool
	// assignment of the newest copy; elsewhere if there is none.
	assignment protocol.Assignment
	// version of the newest copy.
	version string
	// stale says that the copy for the work is older than what every cache shows.
	stale bool
	// found says that there is a copy.
	found bool
	// child says that work is to be done on a child of the root, of which the rest tells nothing but stale.
	child bool
	// behind names a resource of children of which a cache does not show yet what another shard may have written; empty: none.
	behind string
}

// admission is the question whether work on a root may begin, with what the answer follows from.
type admission struct {
	// closed says that the term is over, or about to be.
	closed     bool
	drainState protocol.DrainState
	floor      string
	// outlived says that work on the root is in flight that began in an earlier term.
	outlived bool
	caches   cacheState
}

// refusal is why work may not begin, or nil. The order of the questions matters to the error alone: all have to be answered well.
func (a admission) refusal() error {
	switch {
	case a.closed:
		return fmt.Errorf("%w: the process is ending", ErrNotMine)
	case a.drainState != protocol.Accepting:
		return fmt.Errorf("%w: it is being handed over", ErrNotYet)
	case a.outlived:
		return fmt.Errorf("%w: work of an earlier term has not ended", ErrNotYet)
	case !a.caches.started:
		return errNoCache
	case !a.caches.found && !a.caches.complete:
		return fmt.Errorf("%w: the cache does not show it yet", ErrNotYet)
	case a.caches.assignment != protocol.AssignedHere && a.caches.child && !a.caches.complete: // should the root be assigned again, nothing tells of the child
		return fmt.Errorf("%w: it waits for its root", ErrNotYet)
	case a.caches.assignment != protocol.AssignedHere:
		return ErrNotMine
	case !protocol.Reaches(a.caches.version, a.floor):
		return fmt.Errorf("%w: the cache is from before it was handed over", ErrNotYet)
	case a.caches.stale:
		return fmt.Errorf("%w: the copy is older than the cache's", ErrNotYet)
	case a.caches.behind != "":
		return fmt.Errorf("%w: a cache of %s, children of it, does not show yet what another shard may have written", ErrNotYet, a.caches.behind)
	}
	return nil
}
