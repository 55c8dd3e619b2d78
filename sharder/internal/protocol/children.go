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

// Role is what the objects of a kind are in a ring: roots, which have records, or children, which
// follow their roots.
type Role struct {
	Resource       schema.GroupVersionResource
	Namespaced     bool
	Child          bool
	ChildResources []schema.GroupVersionResource // of roots
}

// Uncontrolled is the warning of a child without a controller, whose only owner in the ring is its root.
const Uncontrolled = "objects have no owner reference with controller: true: each counts as a child of its only " +
	"owner in the ring, and the Owns of controller-runtime does not see it; use SetControllerReference"

// RootRef is the owner reference that names the root of a child.
type RootRef struct {
	Kind schema.GroupKind
	metav1.OwnerReference
}

// RootRefOf returns the owner reference that names the root of a child, if n is 1. It is that of
// the child's controller, of whatever kind. A child without a controller belongs to its only owner
// of a kind that has such children. If it has several such owners, its root is unknown.
func RootRefOf(child metav1.Object, hasSuch func(schema.GroupKind) bool) (root RootRef, n int) {
	if owner := metav1.GetControllerOfNoCopy(child); owner != nil {
		root, ok := rootRef(*owner)
		if !ok {
			return RootRef{}, 0
		}
		return root, 1
	}
	for _, owner := range child.GetOwnerReferences() {
		if r, ok := rootRef(owner); ok && hasSuch(r.Kind) {
			root = r
			n++
		}
	}
	return root, n
}

// rootRef reads an owner reference. ok is false if its API version is malformed.
func rootRef(owner metav1.OwnerReference) (r RootRef, ok bool) {
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return RootRef{schema.GroupKind{Group: group.Group, Kind: owner.Kind}, owner}, err == nil
}
