package shard

import (
	"fmt"
	"slices"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rootOf returns the role and the address of a child's root, or why it has no root.
func (s *Shard) rootOf(child schema.GroupVersionResource, o metav1.Object) (protocol.Role, protocol.Address, error) {
	p, n := protocol.RootRefOf(o, func(kind schema.GroupKind) bool { _, ok := s.parent(kind, child); return ok })
	switch n {
	case 0:
		return protocol.Role{}, protocol.Address{}, fmt.Errorf(
			"no controller owner reference says whose child it is, nor is it owned by an object that has such Children")
	case 1:
	default:
		return protocol.Role{}, protocol.Address{}, fmt.Errorf(
			"it has %d owners that have such Children, and no owner reference of it has controller: true", n)
	}
	root, ok := s.parent(p.Kind, child)
	if !ok {
		return protocol.Role{}, protocol.Address{}, fmt.Errorf(
			"it is controlled by a %s, of whose resource %s are not among the Children", p.Kind, child.GroupResource(),
		)
	}
	at := protocol.Address{Resource: root.Resource, Name: p.Name, UID: p.UID}
	if root.Namespaced {
		at.Namespace = o.GetNamespace()
	}
	return root, at, nil
}

// parent returns the role of a kind of roots that have children of this resource.
func (s *Shard) parent(kind schema.GroupKind, child schema.GroupVersionResource) (protocol.Role, bool) {
	root, ok := s.kinds.of(kind)
	return root, ok && slices.Contains(root.ChildResources, child)
}

// Stamp sets this shard's label on a child that work on its root is about to create, so that the
// shard's caches show the child from the beginning, and the sharder has nothing to do. An unstamped
// child becomes visible to the shard only when the sharder has patched it. Until then, work that
// looks for its children in a cache must not take the child for missing.
//
// Set the child's controller owner reference first (SetControllerReference in controller-runtime):
// it names the root that the child follows. Without a controller, the child follows its only owner
// that has such Children. Stamp returns an error if there are several, if the owner's kind is not
// in [Config].Resources, or if its Children do not include the child's resource. Call Stamp after
// everything else that sets labels of the child, and for each server-side apply, because one that
// lacks the stamp removes it if the same field manager has applied it before.
func (s *Shard) Stamp(child Object) error {
	k, err := s.roleOf(child)
	if err != nil {
		return err
	}
	if !k.Child {
		return fmt.Errorf(
			"shard: stamp %s: they are not children of anything in Config.Resources",
			protocol.AddressOf(k.Resource, child),
		)
	}
	_, root, err := s.rootOf(k.Resource, child)
	if err != nil {
		return fmt.Errorf("shard: stamp %s: %w", protocol.AddressOf(k.Resource, child), err)
	}
	if metav1.GetControllerOfNoCopy(child) == nil {
		if _, said := s.uncontrolled.LoadOrStore(k.Resource, true); !said {
			s.config.Logger.Warn(protocol.Uncontrolled,
				zap.Stringer("object", protocol.AddressOf(k.Resource, child)), zap.Stringer("owner", root))
		}
	}
	labels := child.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[s.keys.Shard] = s.lease.Identity()
	child.SetLabels(labels)
	return nil
}
