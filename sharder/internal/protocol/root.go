package protocol

import (
	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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
	// annotationBytes is the size of all annotations but the record.
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
	v.Foreign, v.annotationBytes = n.foreign(o), n.annotationBytes(o)
	v.scattered = v.Recorded && !v.Record.coversChildren(r.Children)
	var buffer [256]byte
	v.Hash = xxhash.Sum64(r.Key(buffer[:0], r.Kind, o))
	return v
}
