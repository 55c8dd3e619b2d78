package sharder

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// families is what a session knows of roots and their children.
type families struct {
	wake chan struct{} // a move waits

	mu sync.Mutex // guards all that follows

	// waiting are the roots that wait for the next list of their children, no more than the queue has
	// room for. A list serves all roots that waited when it began, because it shows all children that
	// their last owners created.
	waiting []*move

	// A move that ends halfway leaves children with another shard than their root, and the previous
	// sharder may have left some as well. Until a scan finds a root with its owner, lists for that
	// root must show children with any shard.
	halfway map[protocol.Ref]int // roots whose moves may have ended halfway, with ended at that time
	anyRoot bool                 // there may be more than those in halfway
	unknown int                  // ended at the last of those
	ended   int                  // how many moves have ended halfway

	// versions are, for each shard and resource of children, the greatest version of a child that
	// carried the shard's label. The shard's caches reach that version without a further event. They
	// are needed for a root without a record, which may have been its shard's before, with children
	// that no list for a move shows. The shard may not have seen them yet, and the record that made it
	// wait is lost.
	versions map[holding]string
	surveyed map[place]bool // where all children were listed: versions covers those before the session

	// outside are roots that were read and found outside of the ring, because their resource's
	// Selector does not select them and they have no owner. Their children need nothing, so a root
	// need not be read for each child. If a root is selected later, its children are listed before it
	// gets an owner. Before each such list a new round begins without any root, so a child that came
	// while its root was known is listed, and for one that comes later the root is read again.
	outside map[types.UID]struct{}
	round   int // a root that was read in an earlier one is not added
}

const (
	maxHalfway = 1000   // bounds the size of halfway
	maxOutside = 10_000 // bounds the size of outside, to at most a megabyte
)

// holding is the children of one resource, by its index, that are with a shard.
type holding struct {
	shard    string
	resource int
}

func newFamilies() *families {
	return &families{
		wake: make(chan struct{}, 1), halfway: map[protocol.Ref]int{}, anyRoot: true,
		versions: map[holding]string{}, surveyed: map[place]bool{}, outside: map[types.UID]struct{}{},
	}
}

// add causes the children of a root to be listed, and to be moved with it.
func (f *families) add(v *move) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begin() // before the list
	f.waiting = append(f.waiting, v)
	notify(f.wake)
}

// take waits for moves and returns all of them, or nil if ctx has ended.
func (f *families) take(ctx context.Context) []*move {
	select {
	case <-ctx.Done():
		return nil
	case <-f.wake:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.waiting
	f.waiting = nil
	return all
}

// doubt records that children of a root may be with any shard.
func (f *families) doubt(r protocol.Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended++
	if len(f.halfway) < maxHalfway {
		f.halfway[r] = f.ended
	} else {
		f.anyRoot, f.unknown = true, f.ended
	}
}

// mended records that a move has ended well.
func (f *families) mended(r protocol.Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.halfway, r)
}

// doubts returns how many moves have ended halfway so far.
func (f *families) doubts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

// found records that a scan found all roots with their owners, except those in but. ended is the
// value of doubts before the scan: moves that ended halfway since then stay in doubt.
func (f *families) found(ended int, but []protocol.Root) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.anyRoot = f.anyRoot && f.unknown > ended
	maps.DeleteFunc(f.halfway, func(_ protocol.Ref, at int) bool { return at <= ended })
	for _, v := range but {
		f.halfway[v.Ref] = f.ended
	}
}

// inDoubt reports whether children of a root may be with any shard.
func (f *families) inDoubt(r protocol.Ref) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, known := f.halfway[r]
	return f.anyRoot || known
}

// note records that a child is with a shard, at this version or an earlier one.
func (f *families) note(h holding, version string) {
	if h.shard == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.versions[h] = protocol.Later(f.versions[h], version)
}

// floor is the version from which on a cache shows all children that were assigned to a shard. An
// empty floor is reached by any version.
func (f *families) floor(h holding) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.versions[h]
}

// complete records that a list showed all children at a place.
func (f *families) complete(at place) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.surveyed[at] = true
}

// knows reports whether even the children that existed at a place before the session are known.
func (f *families) knows(at place) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.surveyed[at]
}

// prune forgets the versions of all shards but those that are kept.
func (f *families) prune(kept []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.versions, func(h holding, _ string) bool { return !slices.Contains(kept, h.shard) })
}

// isOutside reports whether a root is known to be outside of the ring. round is for addOutside.
func (f *families) isOutside(root types.UID) (known bool, round int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, known = f.outside[root]
	return known, f.round
}

// addOutside records that a root that was read after isOutside is outside of the ring.
func (f *families) addOutside(root types.UID, round int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if round == f.round && len(f.outside) < maxOutside {
		f.outside[root] = struct{}{}
	}
}

// forgetOutside forgets which roots are outside of the ring.
func (f *families) forgetOutside() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begin()
}

// begin begins a round. The caller holds mu.
func (f *families) begin() {
	f.round, f.outside = f.round+1, map[types.UID]struct{}{}
}
