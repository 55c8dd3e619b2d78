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

// ControllerRef is the controller owner reference of an object.
type ControllerRef struct {
	Kind schema.GroupKind
	metav1.OwnerReference
}

// ControllerRefOf returns the controller owner reference of an object; ok is false if there is
// none, or its API version is malformed.
func ControllerRefOf(o metav1.Object) (p ControllerRef, ok bool) {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil {
		return ControllerRef{}, false
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return ControllerRef{schema.GroupKind{Group: group.Group, Kind: owner.Kind}, *owner}, err == nil
}
