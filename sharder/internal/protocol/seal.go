package protocol

import (
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The record of an object is in the annotation of its resource, and with the same value in the one
// that v0.1 knows. The seal label says which value was last written by a version that knows seals.
//
// Others copy annotations: the Deployment controller to ReplicaSets at each sync, and kubectl
// rollout undo back again, which restores what the Deployment carried long ago. The UID in a record
// tells it from another object's. A copy from another resource does not overwrite the resource's
// own annotation. The seal tells a record from an earlier one of the same object.

// SealOf returns the value of the seal label for a record.
func SealOf(value string) string { return strconv.FormatUint(xxhash.Sum64String(value), 16) }

// recordState is what an object's annotations and labels say about its owner.
type recordState struct {
	record Record
	valid  bool // the record was written for this object, and is the latest
	sealed bool // the record is in the form of this version
}

// RecordOf returns the record of an object; ok is false if there is no valid one.
func (n Keys) RecordOf(o metav1.Object) (r Record, ok bool) {
	p := n.recordStateOf(o)
	return p.record, p.valid
}

// carries reports whether an object has this value as its record, in the form of this version.
func (n Keys) carries(o metav1.Object, value string) bool {
	annotations := o.GetAnnotations()
	return annotations[n.Record] == value && annotations[n.Owner] == value && o.GetLabels()[n.Seal] == SealOf(value)
}

// recordStateOf reads the record of an object.
func (n Keys) recordStateOf(o metav1.Object) recordState {
	annotations := o.GetAnnotations()
	plain, ok := annotations[n.Owner]
	if !ok {
		return recordState{} // the record was removed
	}
	before, err := ParseRecord(plain)
	if err != nil {
		return recordState{}
	}
	value, recorded := annotations[n.Record]
	seal, sealed := o.GetLabels()[n.Seal]
	fits := recorded && sealed && seal == SealOf(value)
	switch own := before.UID == o.GetUID(); {
	case own && !recorded && !sealed: // only v0.1 has written it so far
		return recordState{record: before, valid: true}
	case own && fits && value != plain: // v0.1 wrote last: restoring annotations would restore both
		return recordState{record: before, valid: true}
	case own && fits:
		return recordState{record: before, valid: true, sealed: true}
	case own || !fits:
		return recordState{}
	}
	r, err := ParseRecord(value) // the other annotation is a copy of another object's
	if err != nil || r.UID != o.GetUID() {
		return recordState{}
	}
	return recordState{record: r, valid: true, sealed: true}
}

// foreign returns the annotations with records of other objects, which copying may leave behind:
// after kubectl rollout undo a Deployment has that of a ReplicaSet. Records of the object's owners
// are not included: their controllers would restore them.
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
