package shard

import (
	"errors"
	"sync"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kinds maps kinds to their roles in the ring. A resource that the API server does not serve yet,
// such as a custom resource that is installed later, is learned when an informer of it is made.
type kinds struct {
	mapper    meta.RESTMapper
	resources []api.Resource

	mu    sync.RWMutex
	known map[schema.GroupKind]protocol.Role
}

// of returns the role of the objects of a kind.
func (k *kinds) of(kind schema.GroupKind) (protocol.Role, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	found, ok := k.known[kind]
	return found, ok
}

// learn asks the API server for the kinds of all unknown resources. The error names those that it
// does not have.
func (k *kinds) learn() error {
	var errs []error
	note := func(i int, field string, known protocol.Role) {
		if k.has(known.Resource) {
			return
		}
		kind, namespaced, err := protocol.LookUp(k.mapper, known.Resource)
		if err != nil {
			errs = append(errs, protocol.MappingError(i, field, known.Resource, err))
			return
		}
		known.Namespaced = namespaced
		k.mu.Lock()
		defer k.mu.Unlock()
		k.known[kind] = known
	}
	for i, r := range k.resources {
		for _, child := range r.Children {
			note(i, "Children", protocol.Role{Resource: child, Child: true})
		}
		note(i, "GVR", protocol.Role{Resource: r.GVR, ChildResources: r.Children})
	}
	return errors.Join(errs...)
}

// has reports whether the kind of a resource is known.
func (k *kinds) has(resource schema.GroupVersionResource) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, known := range k.known {
		if known.Resource == resource {
			return true
		}
	}
	return false
}
