package api

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource selects objects of one kind that a ring distributes. The sharder and the shards of a
// ring must have the same ones.
type Resource struct {
	// GVR names the resource, for example {Version: "v1", Resource: "configmaps"}. Required. Only
	// metadata is read, which is the same in all served versions, so name the version that the API
	// server stores. It must convert each object to any other version, for some custom resources by
	// a webhook, and while that does not answer, the resource's objects are not distributed.
	GVR schema.GroupVersionResource
	// Selector restricts the ring to objects with these labels. Nil: all objects. The selector must
	// not mention the ring's own labels. When an object is no longer selected, its shard finishes
	// its work and removes the ring's marks; if the shard has ended, the sharder removes them
	// within a ScanInterval. From then on nothing works on the object, so the program must have
	// removed its finalizer before. Otherwise the object cannot be deleted until it is selected
	// again.
	Selector labels.Selector
	// Namespaces restricts the ring to these namespaces, with one watch each. Empty: all. Must be
	// empty for cluster-scoped resources.
	Namespaces []string
	// Key determines an object's place on the ring. Nil: [ObjectKey].
	Key KeyFunc
	// Children are resources whose objects follow their controller, for example the Pods of
	// ReplicaSets. A child names its root in its controller owner reference, or has no controller
	// and only one owner that may be its root. It carries the label of the root's shard, and is
	// always with that shard. Several resources of the ring may have the same Children, but a
	// resource of the ring cannot be one of them. If Namespaces is set, children are only found
	// there. When you add one to a ring in use, shards with a cache of that resource do not work on
	// a root until a sharder that knows the resource has labelled the root's children. Before you
	// make a resource of the ring one of Children, or the other way round, end all replicas.
	// Default: none.
	Children []schema.GroupVersionResource
}

// ObjectRef names an object of the ring.
type ObjectRef struct {
	GVR             schema.GroupVersionResource
	Namespace, Name string
}
