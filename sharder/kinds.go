package sharder

import (
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kinds are those of the objects of a ring. A resource that the API server does not serve yet, such
// as a custom resource that is installed later, has none before somebody makes an informer of it,
// which he can when it is served.
type kinds struct {
	mapper    meta.RESTMapper
	resources []Resource

	mu    sync.RWMutex
	known map[schema.GroupKind]kin
}

// of returns what the objects of a kind are.
func (k *kinds) of(kind schema.GroupKind) (kin, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	found, ok := k.known[kind]
	return found, ok
}

// learn asks the API server for the kinds of all resources that are not known. The error says which
// of them it does not know.
func (k *kinds) learn() error {
	var errs []error
	note := func(i int, field string, known kin) {
		if k.has(known.resource) {
			return
		}
		kind, namespaced, err := lookUp(k.mapper, known.resource)
		if err != nil {
			errs = append(errs, mappingError(i, field, known.resource, err))
			return
		}
		known.namespaced = namespaced
		k.mu.Lock()
		defer k.mu.Unlock()
		k.known[kind] = known
	}
	for i, r := range k.resources {
		for _, child := range r.Children {
			note(i, "Children", kin{resource: child, child: true})
		}
		note(i, "GVR", kin{resource: r.GVR, children: r.Children})
	}
	return errors.Join(errs...)
}

// has reports whether the kind of a resource is known.
func (k *kinds) has(resource schema.GroupVersionResource) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, known := range k.known {
		if known.resource == resource {
			return true
		}
	}
	return false
}
