package api

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is a kind of objects that a ring distributes. Sharder and shards of a ring are given the same ones.
type Resource struct {
	// GVR names the resource, for example {Version: "v1", Resource: "configmaps"}. Required. Which version is taken does not
	// matter, because only metadata is read.
	GVR schema.GroupVersionResource
	// Selector restricts the ring to some objects by their labels. Nil: all of them. An object that ceases to be selected
	// keeps its owner, and is moved by nobody until it is selected again. It must not mention the ring's own labels.
	Selector labels.Selector
	// Namespaces restricts the ring to some namespaces, with one watch each. Empty: all of them. Cluster-scoped resources
	// have none.
	Namespaces []string
	// Key is what an object's place on the ring follows from. Nil: [ObjectKey].
	Key KeyFunc
	// Children are the resources of objects that these ones control, and that a shard's caches show by its label, for example the Pods of
	// ReplicaSets. A child, which names its root in its controller owner reference, is always with its root's shard. A resource may
	// be that of children of several of the ring's resources, but not one of those, too. Where Namespaces are given, children are
	// looked for there. When one is added to a ring in use, work on a root waits, in shards that have a cache of them, until a sharder
	// that knows of it has labelled the root's children. Default: none.
	Children []schema.GroupVersionResource
}
