package api

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource selects objects of one kind that a ring distributes. The sharder and the shards of a
// ring must have the same ones.
type Resource struct {
	// GVR names the resource, for example {Version: "v1", Resource: "configmaps"}. Required. Only metadata
	// is read, which is the same in all served versions, so name the version that the API server stores:
	// in another one it must convert each object, and for some custom resources it asks a webhook to.
	// While that does not answer, the resource is in trouble, and its objects are not distributed.
	GVR schema.GroupVersionResource
	// Selector restricts the ring to objects with these labels. Nil: all objects. The selector must not
	// mention the ring's own labels. Of an object that is no longer selected, its shard lets go when
	// work on it has ended, and takes the ring's marks off; if the shard has ended, the sharder does,
	// within a ScanInterval. From then on nothing works on the object. So the program must have removed
	// its finalizer before: otherwise the object cannot be deleted until it is selected again.
	Selector labels.Selector
	// Namespaces restricts the ring to these namespaces, with one watch each. Empty: all. Must be
	// empty for cluster-scoped resources.
	Namespaces []string
	// Key determines an object's place on the ring. Nil: [ObjectKey].
	Key KeyFunc
	// Children are resources whose objects follow their controller, for example the Pods of
	// ReplicaSets. A child names its root in its controller owner reference, or has no controller and
	// only one owner that may be its root. It carries the label of the root's shard, and is always
	// with that shard. Several resources of the ring may have the
	// same Children, but a resource of the ring cannot be one. If Namespaces is set, children are
	// looked for there. When you add one to a ring in use, shards with a cache of that resource do
	// not work on a root until a sharder that knows the resource has labelled the root's children.
	// Before you make a resource of the ring one of Children, or the other way round, end all replicas.
	// Default: none.
	Children []schema.GroupVersionResource
}
