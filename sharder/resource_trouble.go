package sharder

import (
	"fmt"
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

// troubledRequest is a request with one purpose, because a request with another purpose may find no
// object and succeed.
type troubledRequest struct {
	resourceTrouble
	purpose string
}

// resourceTroubles holds the present troubles.
type resourceTroubles struct {
	hook func(ResourceState)

	mu   sync.Mutex
	open map[troubledRequest]error
}

func newResourceTroubles(hook func(ResourceState)) *resourceTroubles {
	return &resourceTroubles{hook: hook, open: map[troubledRequest]error{}}
}

// note records how a request ended. It calls the hook when the state of its resource has changed.
func (t *resourceTroubles) note(of troubledRequest, err error) {
	t.mu.Lock()
	before := t.present(of.resourceTrouble)
	if err == nil {
		delete(t.open, of)
	} else {
		t.open[of] = err
	}
	now := t.present(of.resourceTrouble)
	t.mu.Unlock()
	if fmt.Sprint(before) != fmt.Sprint(now) && t.hook != nil {
		t.hook(ResourceState{GVR: of.resource, Namespace: of.namespace, Verb: of.verb, Err: now})
	}
}

// present returns why requests with any purpose fail, or nil. The caller holds mu.
func (t *resourceTroubles) present(of resourceTrouble) (err error) {
	purpose := ""
	for r, e := range t.open {
		if r.resourceTrouble == of && (err == nil || r.purpose < purpose) {
			purpose, err = r.purpose, e
		}
	}
	return err
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
	var all []troubledRequest
	for of := range t.open {
		all = append(all, of)
	}
	t.mu.Unlock()
	for _, of := range all {
		t.note(of, nil)
	}
}
