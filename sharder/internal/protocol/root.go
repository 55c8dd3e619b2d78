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

// At returns the name itself, for a queue of objects.
func (r Ref) At() Ref { return r }

// Root is what a decision needs of one version of an object. It is small, so that many can wait for their turn.
type Root struct {
	Ref
	UID       types.UID
	Version   string // resourceVersion
	Label     string // of the shard; empty: none
	Drain     bool
	successor *OwnerEpoch // to whom its shard gives it when it lets go; nil: to nobody
	family    bool        // its resource has children
	Record    Record
	Recorded  bool   // record is valid
	Hash      uint64 // of the key
	// scattered says that there are resources of children that the record does not know: they came into the ring after it was written.
	scattered bool
	// unsealed says that the record is valid, but in the form of v0.1.
	unsealed bool
	// Foreign are annotations with the records of other objects.
	Foreign []string
}

// RootOf condenses a version of an object of a resource, which is the index-th.
func (n Keys) RootOf(index int, r Resource, o metav1.Object) Root {
	v := Root{
		Ref: Ref{Resource: index, Namespace: o.GetNamespace(), Name: o.GetName()},
		UID: o.GetUID(), Version: o.GetResourceVersion(),
		Label: n.ShardOf(o), Drain: n.Draining(o),
	}
	p := n.recordStateOf(o)
	v.Record, v.Recorded, v.unsealed = p.record, p.valid, p.valid && !p.sealed
	if v.Recorded {
		v.successor = n.successorOf(o, v.Record)
	}
	v.family = len(r.Children) > 0
	v.Foreign = n.foreign(o)
	v.scattered = v.Recorded && !v.Record.coversChildren(r.Children)
	var buffer [256]byte
	v.Hash = xxhash.Sum64(r.Key(buffer[:0], r.Kind, o))
	return v
}
