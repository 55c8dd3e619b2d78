package sharder

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// kindred is which resources of a ring are of roots, which of their children, and whose. A resource is known by its index.
type kindred struct {
	all      []resource // of roots, and then of children, each once
	children [][]int    // of each resource of roots
	roots    map[schema.GroupKind]int
}

func kindredOf(roots []resource) kindred {
	k := kindred{all: slices.Clone(roots), children: make([][]int, len(roots)), roots: map[schema.GroupKind]int{}}
	known := map[schema.GroupVersionResource]int{}
	for i, r := range roots {
		k.roots[r.kind] = i
		for _, child := range r.children {
			at, ok := known[child.GVR]
			if !ok {
				at = len(k.all)
				known[child.GVR] = at
				child.Namespaces = slices.Clone(child.Namespaces)
				k.all = append(k.all, child)
			} else if all := &k.all[at].Namespaces; len(*all) > 0 && len(child.Namespaces) > 0 { // or it is in all of them
				*all = slices.Compact(slices.Sorted(slices.Values(append(*all, child.Namespaces...))))
			} else {
				*all = nil
			}
			k.children[i] = append(k.children[i], at)
		}
	}
	return k
}

// child is what a decision needs of one version of an object that a root controls.
type child struct {
	ref
	uid     types.UID
	version string // resourceVersion
	label   string // of the shard; empty: none
	drain   bool   // its shard takes it for another's
	root    ref
	rootUID types.UID
}

// childOf condenses an object of a resource of children; ok is false if no root of the ring controls it.
func (k kindred) childOf(index int, o metav1.Object) (c child, ok bool) {
	p, ok := parentageOf(o)
	if !ok {
		return child{}, false
	}
	root, ok := k.roots[p.kind]
	if !ok || !slices.Contains(k.children[root], index) {
		return child{}, false
	}
	c = child{
		ref: ref{resource: index, namespace: o.GetNamespace(), name: o.GetName()}, uid: o.GetUID(), version: o.GetResourceVersion(),
		root: ref{resource: root, name: p.Name}, rootUID: p.UID,
	}
	if k.all[root].namespaced {
		c.root.namespace = c.namespace
	}
	return c, true
}
