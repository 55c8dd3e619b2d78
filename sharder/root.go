package sharder

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ref names an object of the ring.
type ref struct {
	resource        int // index of the resource
	namespace, name string
}

// root is what a decision needs of one version of an object. It is small, so that many can wait for their turn.
type root struct {
	ref
	uid      types.UID
	version  string // resourceVersion
	label    string // of the shard; empty: none, or one that says nothing
	drain    bool
	record   record
	recorded bool // record is valid
	key      string
	asOf     int64 // tick at which it had been received, to compare with that of a lease
}

// rootOf condenses a version of an object.
func (n names) rootOf(index int, r resource, o metav1.Object, asOf int64) root {
	v := root{
		ref: ref{resource: index, namespace: o.GetNamespace(), name: o.GetName()},
		uid: o.GetUID(), version: o.GetResourceVersion(),
		drain: n.draining(o), asOf: asOf,
		key: string(r.Key(nil, r.kind, o)),
	}
	v.label = o.GetLabels()[n.shard]
	v.record, v.recorded = n.recordOf(o)
	return v
}
