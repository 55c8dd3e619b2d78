package sharder

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resourceTrouble is a request for the objects of a resource that fails, or a resource that is not
// served.
type resourceTrouble struct {
	resource        schema.GroupVersionResource
	namespace, verb string
}

// resourceTroubles holds the present troubles.
type resourceTroubles struct {
	hook func(ResourceState)

	mu   sync.Mutex
	open map[resourceTrouble]error
}

// note records how a request ended. It calls the hook when that has changed.
func (t *resourceTroubles) note(of resourceTrouble, err error) {
	t.mu.Lock()
	before, known := t.open[of]
	if err == nil {
		delete(t.open, of)
	} else {
		t.open[of] = err
	}
	t.mu.Unlock()
	changed := known != (err != nil) || known && before.Error() != err.Error()
	if changed && t.hook != nil {
		t.hook(ResourceState{GVR: of.resource, Namespace: of.namespace, Verb: of.verb, Err: err})
	}
}

// resources returns the troubled resources, sorted.
func (t *resourceTroubles) resources() []schema.GroupVersionResource {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []schema.GroupVersionResource
	for of := range t.open {
		if !slices.Contains(all, of.resource) {
			all = append(all, of.resource)
		}
	}
	slices.SortFunc(all, func(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// end calls the hook for all troubles, because the sharder ends.
func (t *resourceTroubles) end() {
	t.mu.Lock()
	var all []resourceTrouble
	for of := range t.open {
		all = append(all, of)
	}
	t.mu.Unlock()
	for _, of := range all {
		t.note(of, nil)
	}
}
