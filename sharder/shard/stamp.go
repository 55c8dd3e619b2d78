package shard

import (
	"fmt"
	"slices"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rootOf returns the role and the address of a child's root. An error says why the child has none.
func (s *Shard) rootOf(child schema.GroupVersionResource, o metav1.Object) (protocol.Role, protocol.Address, error) {
	p, ok := protocol.ControllerRefOf(o)
	if !ok {
		return protocol.Role{}, protocol.Address{}, fmt.Errorf("no controller owner reference says whose child it is")
	}
	root, ok := s.kinds.of(p.Kind)
	if !ok || !slices.Contains(root.ChildResources, child) {
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

// Stamp sets this shard's label on a child that work on its root is about to create. The shard's
// caches then show the child from the beginning, and the sharder has nothing to do. The sharder
// patches an unstamped child before the shard sees it. Until then, work that looks for its children
// in a cache must not take the child for missing.
//
// Set the child's controller owner reference first (SetControllerReference in controller-runtime):
// it names the root that the child follows. Stamp returns an error if the owner's kind is not in
// [Config].Resources, or if its Children do not include the child's resource.
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
	if _, _, err := s.rootOf(k.Resource, child); err != nil {
		return fmt.Errorf("shard: stamp %s: %w", protocol.AddressOf(k.Resource, child), err)
	}
	labels := child.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[s.keys.Shard] = s.lease.Identity()
	child.SetLabels(labels)
	return nil
}
