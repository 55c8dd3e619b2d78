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
func (g *childFloors) note(h holding, version string) {
	if h.shard == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.versions[h] = protocol.Later(g.versions[h], version)
}

// floor is the version from which on a cache shows all children that were assigned to a shard. An
// empty floor is reached by any version.
func (g *childFloors) floor(h holding) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.versions[h]
}

// complete records that a list showed all children at a place.
func (g *childFloors) complete(at place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.surveyed[at] = true
}

// knows reports whether even the children that existed at a place before the session are known.
func (g *childFloors) knows(at place) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.surveyed[at]
}

// prune forgets all shards but those that are kept.
func (g *childFloors) prune(kept map[string]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for h := range g.versions {
		if !kept[h.shard] {
			delete(g.versions, h)
		}
	}
}
