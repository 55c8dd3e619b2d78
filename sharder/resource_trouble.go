package sharder

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resourceTrouble is that a resource cannot be listed or watched, or is not served.
type resourceTrouble struct {
	resource        schema.GroupVersionResource
	namespace, verb string
}

// resourceTroubles are those that there are.
type resourceTroubles struct {
	hook func(ResourceState)

	mu   sync.Mutex
	open map[resourceTrouble]error
}

// note takes in how a request has ended. It tells the hook when that is other than before.
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

// resources are those with which something is wrong, sorted.
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

// end tells that what was wrong with resources that are served now is over.
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
