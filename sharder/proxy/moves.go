package proxy

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// settling is how long a program may take, after its first attempt to create a child, to see the
// children that the root has come with. Each of its watches is a stream of its own, and nothing
// shows the proxy what the program has read: it may have been stopped since the root came.
const settling = 2 * time.Second

// young is the age up to which a root is taken for one that had no children before it came. The
// record of a root that no shard has had does not contain that.
const young = 10 * time.Second

// moves are the roots that have come to this shard from another.
type moves struct {
	mu   sync.Mutex
	come map[types.UID]*arrival
}

// arrival is how a root has come.
type arrival struct {
	record protocol.Record
	tried  time.Time // first, to create a child
}

// noteMoves follows which roots come to this shard and leave it. Those that are there before the
// program begins are seen together with their children.
func (p *Proxy) noteMoves(resource schema.GroupResource, of cache.SharedIndexInformer) {
	keys := protocol.KeysOf(p.lease.Ring()).Of(resource)
	m := &p.moves
	_, _ = of.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{ // fails only once it has stopped
		AddFunc: func(o any, listed bool) {
			root := o.(metav1.Object)
			record, ok := keys.RecordOf(root)
			if listed || !ok || time.Since(root.GetCreationTimestamp().Time) < young {
				return
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			m.come[root.GetUID()] = &arrival{record: record}
		},
		UpdateFunc: func(before, after any) {
			if p.config.DryRun && !keys.Draining(before.(metav1.Object)) && keys.Draining(after.(metav1.Object)) {
				p.rehearsal.note(after.(metav1.Object), p.config.Logger)
			}
		},
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.come, o.(metav1.Object).GetUID())
		},
	})
}

// mayHave reports whether an owner has come with children of a resource that a program may not see
// yet.
func (m *moves) mayHave(owners []metav1.OwnerReference, children schema.GroupResource) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range owners {
		a, ok := m.come[o.UID]
		if !ok || a.record.Childless[children.String()] != "" {
			continue
		}
		if a.tried.IsZero() {
			a.tried = time.Now()
		}
		if time.Since(a.tried) < settling {
			return true
		}
		delete(m.come, o.UID)
	}
	return false
}
