package sharder

import (
	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ref names an object of the ring.
type ref struct {
	resource        int // index of the resource
	namespace, name string
}

func (r ref) at() ref { return r }

// root is what a decision needs of one version of an object. It is small, so that many can wait for their turn.
type root struct {
	ref
	uid      types.UID
	version  string // resourceVersion
	label    string // of the shard; empty: none
	drain    bool
	heir     *tenant // to whom its shard gives it when it lets go; nil: to nobody
	family   bool    // its resource has children
	record   record
	recorded bool   // record is valid
	hash     uint64 // of the key
	// scattered says that there are resources of children that the record does not know: they came into the ring after it was written.
	scattered bool
	// unsealed says that the record is valid, but in the form of v0.1.
	unsealed bool
	// foreign are annotations with the records of other objects.
	foreign []string
}

// rootOf condenses a version of an object of a resource, which is the index-th.
func (n names) rootOf(index int, r resource, o metav1.Object) root {
	v := root{
		ref: ref{resource: index, namespace: o.GetNamespace(), name: o.GetName()},
		uid: o.GetUID(), version: o.GetResourceVersion(),
		label: n.shardOf(o), drain: n.draining(o),
	}
	p := n.paperOf(o)
	v.record, v.recorded, v.unsealed = p.record, p.valid, p.valid && !p.sealed
	if v.recorded {
		v.heir = n.heirOf(o, v.record)
	}
	v.family = len(r.Children) > 0
	v.foreign = n.foreign(o)
	v.scattered = v.recorded && !v.record.knows(r.Children)
	var buffer [256]byte
	v.hash = xxhash.Sum64(r.Key(buffer[:0], r.kind, o))
	return v
}
