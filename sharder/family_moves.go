package sharder

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
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
	root     protocol.Root
	decision protocol.Decision
	origin   protocol.Origin
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
	m.floor[resource] = protocol.Later(m.floor[resource], version) // client-go's fakes have none
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

	// A move that ends halfway leaves children with a shard that their root is not with. So may
	// have the sharder before this one. Until a scan has found a root with its owner, lists for it
	// have to show the children that are with any shard.
	halfway map[protocol.Ref]int // guarded by mu: roots whose moves may have ended so, and how many had by then
	anyRoot bool                 // guarded by mu: there may be others
	unknown int                  // guarded by mu: how many had ended so by the last of those others
	ended   int                  // guarded by mu: how many have ended so
}

// maxHalfway is how many of them are known one by one.
const maxHalfway = 1000

func newMoves() *moves {
	return &moves{wake: make(chan struct{}, 1), halfway: map[protocol.Ref]int{}, anyRoot: true}
}

func (m *moves) add(v *move) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = append(m.waiting, v)
	notify(m.wake)
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

// doubt notes that children of a root may be with any shard.
func (m *moves) doubt(r protocol.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended++
	if len(m.halfway) < maxHalfway {
		m.halfway[r] = m.ended
	} else {
		m.anyRoot, m.unknown = true, m.ended
	}
}

// mended notes that a move has ended well.
func (m *moves) mended(r protocol.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.halfway, r)
}

// doubts is how many moves have ended halfway until now.
func (m *moves) doubts() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

// found notes that a scan, before which so many moves had ended halfway, has found all roots with
// their owners but those. It says nothing about roots whose moves have ended so since.
func (m *moves) found(ended int, but []protocol.Root) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.anyRoot = m.anyRoot && m.unknown > ended
	maps.DeleteFunc(m.halfway, func(_ protocol.Ref, at int) bool { return at <= ended })
	for _, v := range but {
		m.halfway[v.Ref] = m.ended
	}
}

// inDoubt reports whether children of a root may be with any shard.
func (m *moves) inDoubt(r protocol.Ref) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.halfway[r]
	return m.anyRoot || known
}

// batch is moves whose children one list shows.
type batch struct {
	moves []*move
	// any says that the children may be with any shard; otherwise they are with the sources, or
	// with none of the members.
	any     bool
	sources []string
}

// batchOf returns the batch of moves that a list is about to be made for. It is one list, however
// many shards the children are with.
func batchOf(all []*move, anywhere func(*move) bool) batch {
	b := batch{moves: all}
	for _, m := range all {
		b.any = b.any || m.origin.Any || anywhere(m)
		if _, member := m.plan.members.Member(m.origin.Shard); member && !slices.Contains(b.sources, m.origin.Shard) {
			b.sources = append(b.sources, m.origin.Shard)
		}
	}
	return b
}
