package sharder

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kin is what the objects of a kind are in a ring: roots, which have records, or children, which follow those.
type kin struct {
	resource   schema.GroupVersionResource
	namespaced bool
	child      bool
	children   []schema.GroupVersionResource // of roots
}

// parentage is what the controller owner reference of an object says.
type parentage struct {
	kind schema.GroupKind
	metav1.OwnerReference
}

// parentageOf returns whom an object is controlled by; ok is false if that is nobody.
func parentageOf(o metav1.Object) (p parentage, ok bool) {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil {
		return parentage{}, false
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	return parentage{schema.GroupKind{Group: group.Group, Kind: owner.Kind}, *owner}, err == nil
}
