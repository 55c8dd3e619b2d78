package sharder

import (
	"sync"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// childFloors is what is known of the children that shards have: of each shard and resource, the greatest version of a child that carried
// the shard's label. The caches of the shard reach that version without a further event.
//
// A root without a record needs it. It may have been its shard's already, and its children are with that shard then, where no list
// of those to be moved shows them; the shard may not have seen them yet, and the record that made it wait is lost.
type childFloors struct {
	mu       sync.Mutex
	versions map[holding]string
	surveyed map[int]bool // resources of which all children were listed, so that versions has those from before the session, too
}

// holding is the children of one resource, which is known by its index, that are with a shard.
type holding struct {
	shard    string
	resource int
}

func newChildFloors() *childFloors {
	return &childFloors{versions: map[holding]string{}, surveyed: map[int]bool{}}
}

// note takes in that a child is with a shard, since a version or before.
func (g *childFloors) note(h holding, version string) {
	if h.shard == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.versions[h] = protocol.Later(g.versions[h], version)
}

// floor is the version from which on a cache shows all the children that a shard has been given; empty: any.
func (g *childFloors) floor(h holding) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.versions[h]
}

// complete notes that a list has shown all children of a resource.
func (g *childFloors) complete(resource int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.surveyed[resource] = true
}

// knows reports whether the children of a resource that were there before the session are known, too.
func (g *childFloors) knows(resource int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.surveyed[resource]
}

// prune forgets the shards that are not to be kept.
func (g *childFloors) prune(kept map[string]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for h := range g.versions {
		if !kept[h.shard] {
			delete(g.versions, h)
		}
	}
}
