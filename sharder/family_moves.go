package sharder

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

var (
	// errMoving means that the goroutine that moves families finishes the item.
	errMoving = errors.New("its children are moved first")
	// errReplanned means that the object must be decided on again.
	errReplanned = errors.New("it may belong to another shard now")
)

// move is a root that no shard works on, on its way to another shard. Its children move first.
type move struct {
	item     *item
	root     protocol.Root
	decision protocol.Decision
	origin   protocol.Origin
	plan     *plan // of the decision
	current  bool  // root was read when no other move of it was under way

	// The first of the children that move has the root protected, and the others wait for it.
	protecting atomic.Bool
	protected  chan struct{}
	unfit      error // why the root could not be protected; set before protected is closed

	mu    sync.Mutex
	floor map[string]string // guarded by mu: the greatest version of its moved children, by resource
	err   error             // guarded by mu: why a child may not have moved
}

// reach records that a child is with its new shard, at this version or an earlier one.
func (m *move) reach(resource, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.floor == nil {
		m.floor = map[string]string{}
	}
	m.floor[resource] = protocol.Later(m.floor[resource], version) // client-go's fakes have none
}

// failed reports whether a child may not have moved.
func (m *move) failed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err != nil
}

func (m *move) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// moves are the roots that wait for the next list of their children. A list serves all roots that
// waited when it began, because it shows all children that their last owners created.
type moves struct {
	wake chan struct{}

	mu      sync.Mutex
	waiting []*move // guarded by mu; no more than the queue has room for

	// A move that ends halfway leaves children with another shard than their root, and the previous
	// sharder may have left some as well. Until a scan finds a root with its owner, lists for that
	// root must show children with any shard.
	halfway map[protocol.Ref]int // guarded by mu: roots whose moves may have ended halfway, with ended at that time
	anyRoot bool                 // guarded by mu: there may be more than those in halfway
	unknown int                  // guarded by mu: ended at the last of those
	ended   int                  // guarded by mu: how many moves have ended halfway
}

// maxHalfway bounds the size of halfway.
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

// take waits for moves and returns all of them, or nil if ctx has ended.
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

// doubt records that children of a root may be with any shard.
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

// mended records that a move has ended well.
func (m *moves) mended(r protocol.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.halfway, r)
}

// doubts returns how many moves have ended halfway so far.
func (m *moves) doubts() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

// found records that a scan found all roots with their owners, except those in but. ended is the
// value of doubts before the scan: moves that ended halfway since then stay in doubt.
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

// batch is a set of moves whose children one list shows.
type batch struct {
	moves []*move
	// any means that the children may be with any shard. Otherwise they are with one of the
	// sources, or without a member's label.
	any     bool
	sources []string
}

// batchOf returns the batch of moves for the next list, which is a single one, however many shards
// the children are with.
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
