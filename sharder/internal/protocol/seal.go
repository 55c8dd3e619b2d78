package protocol

import (
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The record of an object is in the annotation of its resource. The seal label identifies the value
// that the ring wrote last.
//
// Others copy annotations: the Deployment controller to ReplicaSets at each sync, and kubectl
// rollout undo back again, which restores what the Deployment carried long ago. The UID in a record
// tells it from another object's. A copy from another resource does not overwrite the resource's
// own annotation. The seal tells a record from an earlier one of the same object.

// SealOf returns the value of the seal label for a record.
func SealOf(value string) string { return strconv.FormatUint(xxhash.Sum64String(value), 16) }

// RecordOf returns the record of an object; ok is false without a valid one.
func (n Keys) RecordOf(o metav1.Object) (r Record, ok bool) {
	value := o.GetAnnotations()[n.Record]
	if !n.carries(o, value) {
		return Record{}, false
	}
	r, err := ParseRecord(value)
	if err != nil || r.UID != o.GetUID() {
		return Record{}, false
	}
	return r, true
}

// carries reports whether an object has this value as its record, and the seal for it.
func (n Keys) carries(o metav1.Object, value string) bool {
	return o.GetAnnotations()[n.Record] == value && o.GetLabels()[n.Seal] == SealOf(value)
}

// foreign returns the annotations with records of other objects, which copying may leave behind:
// after kubectl rollout undo a Deployment has that of a ReplicaSet. Records of the object's owners
// are not included, because their controllers would restore them.
func (n Keys) foreign(o metav1.Object) (found []string) {
	for key, value := range o.GetAnnotations() {
		if key == n.Record || !n.isRecord(key) {
			continue
		}
		if r, err := ParseRecord(value); err != nil || !owns(o, r.UID) {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return found
}

func owns(o metav1.Object, owner types.UID) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner })
}
