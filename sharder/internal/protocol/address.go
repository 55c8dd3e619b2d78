package protocol

import (
	"github.com/bellwether-k8s/bellwether/sharder/api"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Address identifies a root. An object that is created later under the same name has another UID,
// and so another address.
type Address struct {
	Resource  schema.GroupVersionResource
	Namespace string
	Name      string
	UID       types.UID
}

// String returns the address for messages, without the UID.
func (a Address) String() string {
	name := a.Name
	if a.Namespace != "" {
		name = a.Namespace + "/" + name
	}
	return a.Resource.Resource + " " + name
}

// AddressOf returns the address of an object.
func AddressOf(resource schema.GroupVersionResource, o metav1.Object) Address {
	return Address{Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
}

// Of reports whether an object of the resource is the one at this address.
func (a Address) Of(o metav1.Object) bool { return AddressOf(a.Resource, o) == a }

// Ref returns the name of the object, for hooks.
func (a Address) Ref() api.ObjectRef {
	return api.ObjectRef{GVR: a.Resource, Namespace: a.Namespace, Name: a.Name}
}
