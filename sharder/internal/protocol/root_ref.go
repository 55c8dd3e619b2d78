package protocol

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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

// Controls reports whether the owner is a controller.
func (r RootRef) Controls() bool { return r.Controller != nil && *r.Controller }
