package sharder

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

var (
	// errMoving says that an object is dealt with by somebody else, who finishes it.
	errMoving = errors.New("its children are moved first")
	// errReplanned says that an object has to be looked at anew.
	errReplanned = errors.New("it may belong to another shard now")
)

// move is a root that nobody works on any more, on its way to a shard by way of its children.
type move struct {
	item     *item
	root     root
	decision decision
	origin   origin
	plan     *plan // by which was decided

	mu    sync.Mutex
	floor map[string]string // guarded by mu: the greatest version of its children where they are now, by their resource
	err   error             // guarded by mu: why one of them may not be there
}

// reach notes that a child is where it is to be, since a version.
func (m *move) reach(resource, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.floor == nil {
		m.floor = map[string]string{}
	}
	m.floor[resource] = later(m.floor[resource], version) // client-go's fakes have none
}

func (m *move) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// moves are those that wait for the next list of children. A list is for all that had come when it began: it shows whatever the last
// owners of their roots have created.
type moves struct {
	wake chan struct{}

	mu      sync.Mutex
	waiting []*move // guarded by mu; no more than the queue has room for

	// A move that ends halfway leaves children with a shard that their root is not with. So may have the sharder before this one. Until a
	// scan has found all roots with their owners, lists have to show the children that are with any shard.
	halfway atomic.Int64 // moves that may have ended so
	mended  atomic.Int64 // how many of them are over
}

func newMoves() *moves {
	m := &moves{wake: make(chan struct{}, 1)}
	m.halfway.Store(1)
	return m
}

func (m *moves) add(v *move) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = append(m.waiting, v)
	poke(m.wake)
}

// take waits for moves, and returns all that there are; none when ctx has ended.
func (m *moves) take(ctx context.Context) []*move {
	select {
	case <-ctx.Done():
		return nil
	case <-m.wake:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.waiting
	m.waiting = nil
	return all
}

// inDoubt reports whether children may be with any shard.
func (m *moves) inDoubt() bool { return m.halfway.Load() != m.mended.Load() }

// batch is moves whose children one list shows.
type batch struct {
	moves []*move
	// any says that the children may be with any shard; otherwise they are with source, or with none of the members.
	any    bool
	source string
}

// batches of moves, each as large as can be.
func batches(all []*move, anywhere bool) []batch {
	for _, m := range all {
		anywhere = anywhere || m.origin.any
	}
	if anywhere {
		return []batch{{moves: all, any: true}}
	}
	var found []batch
	at := map[string]int{}
	for _, m := range all {
		source := ""
		if _, member := m.plan.members.member(m.origin.shard); member {
			source = m.origin.shard
		}
		i, ok := at[source]
		if !ok {
			i = len(found)
			at[source] = i
			found = append(found, batch{source: source})
		}
		found[i].moves = append(found[i].moves, m)
	}
	return found
}
