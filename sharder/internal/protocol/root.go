package protocol

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/sharder/api"
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

// Ref names an object of the ring.
type Ref struct {
	Resource        int // index of the resource
	Namespace, Name string
}

// At returns the Ref itself, for a queue of objects.
func (r Ref) At() Ref { return r }

// Root is what a decision needs of one version of a root. It is small, because many may be queued.
type Root struct {
	Ref
	UID     types.UID
	Version string // resourceVersion
	// Generation is that of the specification, or zero if the resource has no generations.
	Generation int64
	Label      string // of the shard, if any
	Drain      bool
	successor  *OwnerEpoch // to which its shard hands it over; may be nil
	family     bool        // its resource has children
	Record     Record
	Recorded   bool   // Record is valid
	Hash       uint64 // of the key
	// scattered means that the record does not cover all resources of children, because some were
	// added to the ring after it was written.
	scattered bool
	// Foreign are the annotations with records of other objects.
	Foreign []string
	// annotationBytes is the size of all annotations but the record, as the API server counts it.
	annotationBytes int
}

// ChangedSince reports whether the specification differs from that of another version of the object.
// The marks of the ring must not have been written in between.
func (r Root) ChangedSince(other Root) bool {
	if r.Generation > 0 {
		return r.UID != other.UID || r.Generation != other.Generation
	}
	return r.UID != other.UID || r.Version != other.Version
}

// RootOf returns the Root of a version of an object. index is that of its resource.
func (n Keys) RootOf(index int, r Resource, o metav1.Object) Root {
	v := Root{
		Ref: Ref{Resource: index, Namespace: o.GetNamespace(), Name: o.GetName()},
		UID: o.GetUID(), Version: o.GetResourceVersion(),
		Generation: o.GetGeneration(), Label: n.ShardOf(o), Drain: n.Draining(o),
	}
	if v.Record, v.Recorded = n.RecordOf(o); v.Recorded {
		v.successor = n.SuccessorOf(o, v.Record)
	}
	v.family = len(r.Children) > 0
	v.Foreign = n.foreign(o)
	for key, value := range o.GetAnnotations() {
		if key != n.Record {
			v.annotationBytes += len(key) + len(value)
		}
	}
	v.scattered = v.Recorded && slices.ContainsFunc(r.Children, func(child schema.GroupVersionResource) bool {
		_, covered := v.Record.ChildFloor[child.GroupResource().String()]
		return !covered
	})
	var buffer [256]byte
	v.Hash = xxhash.Sum64(r.Key(buffer[:0], r.Kind, o))
	return v
}

// RoomFor returns an error if an object has no room for this record once a drain has named the next
// owner in it, because an object that could not be drained must not be assigned.
func (n Keys) RoomFor(o Root, r Record) error {
	r.Next = &OwnerEpoch{
		Shard: strings.Repeat("x", 63), LeaseUID: types.UID(strings.Repeat("x", 36)), Epoch: math.MaxInt64,
	}
	need := len(n.Record) + len(r.Encode())
	if size := o.annotationBytes + need; size > validation.TotalAnnotationSizeLimitB {
		return fmt.Errorf("annotations: must leave %d bytes of %d for the record of the owner (have %d)", need,
			validation.TotalAnnotationSizeLimitB, validation.TotalAnnotationSizeLimitB-o.annotationBytes)
	}
	return nil
}
