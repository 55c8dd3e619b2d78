package shard

import (
	"errors"
	"fmt"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

var (
	// ErrNotMine is returned by [Shard.Do] for an object that this shard may not work on: it
	// belongs to another shard or to none, or is gone. Drop the object: if it becomes this shard's,
	// an event follows.
	ErrNotMine = errors.New("shard: the object is not this shard's")

	// ErrNotYet is returned by [Shard.Do] for an object that this shard may be allowed to work on
	// soon. Try again a little later, because an event need not follow.
	ErrNotYet = errors.New("shard: work on the object may not begin yet")

	// ErrUnguarded is returned by [Shard.Do] if the shard's lease guards no client of this process.
	// Nothing would then stop requests of work after the lease is lost. Pass the lease's
	// WrapTransport to the Wrap of the rest.Config from which the clients of work are made.
	ErrUnguarded = errors.New("shard: the shard lease guards no client")
)

// errNoCache is an ErrNotYet that persists until the program is fixed.
var errNoCache = fmt.Errorf("%w: no cache of its resource is one of Shard.NewInformer"+
	" (in controller-runtime: cache.Options.NewInformer)", ErrNotYet)

// cacheState is what the caches show of a root.
type cacheState struct {
	// started means that a cache counts in this term. Other caches may be older than the term;
	// joining means that all are.
	started, joining bool
	// complete means that caches without a copy would show one if the version for the work existed.
	complete bool
	// assignment is that of the newest copy, or AssignedElsewhere if there is no copy.
	assignment protocol.Assignment
	// version is that of the copy for the work, or of the root's newest copy if the work is on a
	// child.
	version string
	// stale means that the copy for the work is from before the assignment, older than the copy in
	// every cache, or from before the child got another root.
	stale bool
	// found means that there is a copy.
	found bool
	// child means that the work is on a child. All fields but stale and elsewhere are then about
	// its root.
	child bool
	// elsewhere means that the child carries the label of another shard, which may be at work on it
	// as the child of another root, or is marked, so that the sharder may give it to another shard.
	elsewhere bool
	// behind names a resource of children, if any, whose cache may not yet show what another shard
	// has written.
	behind string
}

// admission is the input of the decision whether work on a root may begin.
type admission struct {
	// closed means that the term is over, or about to be.
	closed     bool
	drainState protocol.DrainState
	floor      string
	// outlived means that work on the root from an earlier term is still in flight.
	outlived bool
	caches   cacheState
}

// refusal returns why work may not begin, or nil. All conditions must hold; their order only
// determines the error.
func (a admission) refusal() error {
	switch {
	case a.closed:
		return fmt.Errorf("%w: the process is ending", ErrNotMine)
	case a.drainState != protocol.Accepting:
		return fmt.Errorf("%w: it is being handed over", ErrNotYet)
	case a.outlived:
		return fmt.Errorf("%w: work of an earlier term has not ended", ErrNotYet)
	case a.caches.joining:
		return fmt.Errorf("%w: the cache does not show yet what was stored when the term began", ErrNotYet)
	case !a.caches.started:
		return errNoCache
	case !a.caches.found && !a.caches.complete:
		return fmt.Errorf("%w: the cache does not show it yet", ErrNotYet)
	case a.caches.assignment != protocol.AssignedHere && a.caches.child && !a.caches.complete:
		// If the root is assigned again, no event of the child follows.
		return fmt.Errorf("%w: it waits for its root", ErrNotYet)
	case a.caches.assignment != protocol.AssignedHere:
		return ErrNotMine
	case !protocol.Reaches(a.caches.version, a.floor):
		return fmt.Errorf("%w: the cache is from before it was handed over", ErrNotYet)
	case a.caches.stale:
		return fmt.Errorf("%w: the copy is older than the cache's", ErrNotYet)
	case a.caches.elsewhere:
		return fmt.Errorf("%w: the child is with another shard, or is let go of", ErrNotYet)
	case a.caches.behind != "":
		return fmt.Errorf(
			"%w: a cache of %s, children of it, does not show yet what another shard may have written", ErrNotYet,
			a.caches.behind,
		)
	}
	return nil
}
