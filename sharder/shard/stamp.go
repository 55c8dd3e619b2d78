package shard

import (
	"fmt"
	"slices"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rootOf returns what the root of an object of a resource of children is, and where. An error says why the child has none.
func (s *Shard) rootOf(child schema.GroupVersionResource, o metav1.Object) (protocol.Role, protocol.Address, error) {
	p, ok := protocol.ControllerRefOf(o)
	if !ok {
		return protocol.Role{}, protocol.Address{}, fmt.Errorf("no controller owner reference says whose child it is")
	}
	root, ok := s.kinds.of(p.Kind)
	if !ok || !slices.Contains(root.ChildResources, child) {
		return protocol.Role{}, protocol.Address{}, fmt.Errorf("it is controlled by a %s, of whose resource %s are not among the Children", p.Kind, child.GroupResource())
	}
	at := protocol.Address{Resource: root.Resource, Name: p.Name, UID: p.UID}
	if root.Namespaced {
		at.Namespace = o.GetNamespace()
	}
	return root, at, nil
}

// Stamp gives a child, which is about to be created by work on its root, the label of this shard: its caches show it from the
// beginning then, and the sharder has nothing to do. A child that is not stamped is patched by the sharder before the shard sees it: work
// that looks for its children in a cache must not take it for missing meanwhile.
//
// The child's controller owner reference has to be set before (SetControllerReference in controller-runtime): a child follows the root that
// this names. It is an error if that is of no kind of [ShardConfig].Resources, or if the child's own is not among the Children of that.
func (s *Shard) Stamp(child Object) error {
	k, err := s.roleOf(child)
	if err != nil {
		return err
	}
	if !k.Child {
		return fmt.Errorf("shard: stamp %s: they are not children of anything in ShardConfig.Resources", protocol.AddressOf(k.Resource, child))
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
