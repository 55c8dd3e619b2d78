package sharder

import (
	"sync"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// childFloors holds, for each shard and resource of children, the greatest version of a child that
// carried the shard's label. The shard's caches reach that version without a further event.
//
// It is needed for a root without a record, which may have been its shard's before, with children
// that no list for a move shows. The shard may not have seen them yet, and the record that made it
// wait is lost.
type childFloors struct {
	mu       sync.Mutex
	versions map[holding]string
	surveyed map[place]bool // where all children were listed: versions covers those before the session
}

// holding is the children of one resource, by its index, that are with a shard.
type holding struct {
	shard    string
	resource int
}

func newChildFloors() *childFloors {
	return &childFloors{versions: map[holding]string{}, surveyed: map[place]bool{}}
}

// note records that a child is with a shard, at this version or an earlier one.
func (f *childFloors) note(h holding, version string) {
	if h.shard == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.versions[h] = protocol.Later(f.versions[h], version)
}

// floor is the version from which on a cache shows all children that were assigned to a shard. An
// empty floor is reached by any version.
func (f *childFloors) floor(h holding) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.versions[h]
}

// complete records that a list showed all children at a place.
func (f *childFloors) complete(at place) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.surveyed[at] = true
}

// knows reports whether even the children that existed at a place before the session are known.
func (f *childFloors) knows(at place) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.surveyed[at]
}

// prune forgets all shards but those that are kept.
func (f *childFloors) prune(kept map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for h := range f.versions {
		if !kept[h.shard] {
			delete(f.versions, h)
		}
	}
}
