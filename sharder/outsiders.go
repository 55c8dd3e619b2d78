package sharder

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// outsiders are roots that were read and found outside of the ring, because their resource's
// Selector does not select them and they have no owner. Their children need nothing, so a root need
// not be read for each child.
//
// If a root is selected later, its children are listed before it gets an owner. The session begins
// with new outsiders before each such list, so a child that came while its root was known is
// listed, and for one that comes later the root is read again. A root that was read before is added
// to the outsiders that are dropped.
type outsiders struct {
	mu    sync.Mutex
	roots map[types.UID]struct{} // guarded by mu
}

// maxOutsiders bounds the number of outsiders, so that they take at most a megabyte.
const maxOutsiders = 10_000

func newOutsiders() *outsiders { return &outsiders{roots: map[types.UID]struct{}{}} }

// add records that a root is one of them, if there is room.
func (o *outsiders) add(root types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.roots) < maxOutsiders {
		o.roots[root] = struct{}{}
	}
}

// has reports whether a root is known to be one of them.
func (o *outsiders) has(root types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, known := o.roots[root]
	return known
}
