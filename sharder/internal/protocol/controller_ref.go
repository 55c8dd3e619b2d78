package protocol

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kin is what the objects of a kind are in a ring: roots, which have records, or children, which follow those.
type Role struct {
	Resource       schema.GroupVersionResource
	Namespaced     bool
	Child          bool
	ChildResources []schema.GroupVersionResource // of roots
}

// parentage is what the controller owner reference of an object says.
type controllerRef struct {
	Kind schema.GroupKind
	metav1.OwnerReference
}

// parentageOf returns whom an object is controlled by; ok is false if that is nobody.
func ControllerRefOf(o metav1.Object) (p controllerRef, ok bool) {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil {
		return controllerRef{}, false
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return controllerRef{schema.GroupKind{Group: group.Group, Kind: owner.Kind}, *owner}, err == nil
}
