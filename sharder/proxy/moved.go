package proxy

import (
	"encoding/json"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// settling is how long a program may take to see the children of a root that has moved here.
const settling = 2 * time.Second

// errMoved refuses to create a child whose name the API server makes: nothing else keeps a program from creating one
// twice that it does not see yet. The program tries again after it has read its children again.
var errMoved = errors.New("its owner has moved here, possibly before the children that it has; please try again")

// tried is since when a program has tried to create children of a root under this record.
type tried struct {
	record string
	since  time.Time
}

// unsettled reports whether a program may lack children that a root had when it moved here. The clock begins with the
// first attempt, because nothing shows the proxy what a program has read.
func (p *Proxy) unsettled(child *metav1.PartialObjectMetadata, q request) bool {
	owner := metav1.GetControllerOf(child)
	for resource, kind := range p.kinds {
		if p.roles[resource] != root || owner == nil || kind.Kind != owner.Kind {
			continue
		}
		of := request{resource: resource.WithVersion(kind.Version), name: owner.Name}
		o := p.cached(of)
		if of.namespace = child.Namespace; o == nil {
			o = p.cached(of)
		}
		if o == nil || o.UID != owner.UID {
			continue
		}
		record := o.Annotations[api.RecordAnnotation(p.config.Ring, resource)]
		var had struct{ ChildFloor map[string]string }
		if json.Unmarshal([]byte(record), &had) != nil || had.ChildFloor[q.resource.GroupResource().String()] == "" {
			return false
		}
		now := tried{record, time.Now()}
		if before, ok := p.tried.Swap(o.UID, now); ok && before.(tried).record == record {
			now = before.(tried)
			p.tried.Store(o.UID, now)
		}
		return time.Since(now.since) < settling
	}
	return false
}

// forget forgets roots that are gone.
func (p *Proxy) forget() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{DeleteFunc: func(o any) {
		if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if m, ok := o.(metav1.Object); ok {
			p.tried.Delete(types.UID(m.GetUID()))
		}
	}}
}
