package sharder

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// address is where to find a root. An object that is created anew under its name is another.
type address struct {
	resource  schema.GroupVersionResource
	namespace string
	name      string
	uid       types.UID
}

// String is for messages.
func (a address) String() string {
	name := a.name
	if a.namespace != "" {
		name = a.namespace + "/" + name
	}
	return a.resource.Resource + " " + name
}

// addressOf returns the address of an object.
func addressOf(resource schema.GroupVersionResource, o metav1.Object) address {
	return address{resource: resource, namespace: o.GetNamespace(), name: o.GetName(), uid: o.GetUID()}
}

// of reports whether an object of the resource is the one at this address.
func (a address) of(o metav1.Object) bool { return addressOf(a.resource, o) == a }

func (a address) ref() ObjectRef {
	return ObjectRef{GVR: a.resource, Namespace: a.namespace, Name: a.name}
}
