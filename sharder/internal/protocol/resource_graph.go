package protocol

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ResourceGraph relates the resources of a ring's roots to those of their children. A resource is
// identified by its index.
type ResourceGraph struct {
	All            []Resource // of roots, and then of children, each once
	ChildResources [][]int    // of each resource of roots
	roots          map[schema.GroupKind]int
}

// ResourceGraphOf returns the graph of these resources of roots and their children.
func ResourceGraphOf(roots []Resource) ResourceGraph {
	k := ResourceGraph{
		All: slices.Clone(roots), ChildResources: make([][]int, len(roots)), roots: map[schema.GroupKind]int{},
	}
	known := map[schema.GroupVersionResource]int{}
	for i, r := range roots {
		k.roots[r.Kind] = i
		for _, child := range r.childResources {
			at, ok := known[child.GVR]
			if !ok {
				at = len(k.All)
				known[child.GVR] = at
				child.Namespaces = slices.Clone(child.Namespaces)
				k.All = append(k.All, child)
			} else if all := &k.All[at].Namespaces; len(*all) > 0 && len(child.Namespaces) > 0 {
				// or it is in all of them
				*all = slices.Compact(slices.Sorted(slices.Values(append(*all, child.Namespaces...))))
			} else {
				*all = nil
			}
			k.ChildResources[i] = append(k.ChildResources[i], at)
		}
	}
	return k
}

// Child is the input of a decision about one version of a child.
type Child struct {
	Ref
	UID     types.UID
	Version string // resourceVersion
	Label   string // of the shard, if any
	Drain   bool   // its shard believes that it belongs elsewhere
	Root    Ref
	RootUID types.UID
}

// RootRefOf is [RootRefOf] for an object of a resource of children. n is 0 if its controller is not
// a root of the ring with such children.
func (k ResourceGraph) RootRefOf(index int, o metav1.Object) (root RootRef, n int) {
	hasSuch := func(kind schema.GroupKind) bool {
		root, ok := k.roots[kind]
		return ok && slices.Contains(k.ChildResources[root], index)
	}
	if root, n = RootRefOf(o, hasSuch); n == 1 && !hasSuch(root.Kind) {
		return RootRef{}, 0
	}
	return root, n
}

// ChildOf returns the Child of an object of a resource of children; ok is false if it has no root
// in the ring, or its root is unknown.
func (k ResourceGraph) ChildOf(index int, o metav1.Object) (c Child, ok bool) {
	p, n := k.RootRefOf(index, o)
	if n != 1 {
		return Child{}, false
	}
	root := k.roots[p.Kind]
	c = Child{
		Ref: Ref{Resource: index, Namespace: o.GetNamespace(), Name: o.GetName()}, UID: o.GetUID(),
		Version: o.GetResourceVersion(),
		Root:    Ref{Resource: root, Name: p.Name}, RootUID: p.UID,
	}
	if k.All[root].Namespaced {
		c.Root.Namespace = c.Namespace
	}
	return c, true
}
