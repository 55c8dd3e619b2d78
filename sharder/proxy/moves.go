package proxy

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// settling is how long the program's watch of children may take to show those of a root that has come with them.
// The proxy's own watches may be earlier, and the program's that of the root.
const settling = 2 * time.Second

// young is the age up to which a root is taken for one that had no children before it came. The record of a root
// that no shard has had does not contain that.
const young = 10 * time.Second

// noteMoves follows which roots come to this shard and leave it.
func (p *Proxy) noteMoves(resource schema.GroupResource, of cache.SharedIndexInformer) {
	keys := protocol.KeysOf(p.lease.Ring()).Of(resource)
	_, _ = of.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only once it has stopped
		AddFunc: func(o any) {
			root := o.(metav1.Object)
			record, ok := keys.RecordOf(root)
			if !ok || time.Since(root.GetCreationTimestamp().Time) < young {
				return
			}
			p.arrived.Store(root.GetUID(), record)
			time.AfterFunc(settling, func() { p.arrived.Delete(root.GetUID()) })
		},
		UpdateFunc: func(before, after any) {
			if p.config.DryRun && !keys.Draining(before.(metav1.Object)) && keys.Draining(after.(metav1.Object)) {
				p.rehearsal.note(after.(metav1.Object), p.config.Logger)
			}
		},
	})
}

// mayHave reports whether an owner has just come here with children of a resource.
func (p *Proxy) mayHave(owners []metav1.OwnerReference, children schema.GroupResource) bool {
	for _, o := range owners {
		record, ok := p.arrived.Load(o.UID)
		if ok && record.(protocol.Record).Childless[children.String()] == "" {
			return true
		}
	}
	return false
}
