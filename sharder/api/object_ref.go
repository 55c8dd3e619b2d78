package api

import "k8s.io/apimachinery/pkg/runtime/schema"

// ObjectRef names an object of the ring.
type ObjectRef struct {
	GVR             schema.GroupVersionResource
	Namespace, Name string
}
