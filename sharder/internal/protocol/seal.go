package protocol

import (
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The record of an object is in the annotation of its resource, and once more, with the same value, in the one that v0.1 knows. The
// seal label says which value was written last by somebody who knows of seals.
//
// Others copy annotations: from a Deployment to its ReplicaSets at each sync, and back again by kubectl rollout undo, which restores
// what the Deployment carried long ago. The object's UID in a record tells it from that of another object, the annotation of the
// resource is not overwritten by a copy of another resource's, and the seal tells a record from an earlier one of the same object.

// SealOf is the value of the seal label for a record.
func SealOf(value string) string { return strconv.FormatUint(xxhash.Sum64String(value), 16) }

// recordState is what an object says about its owner.
type recordState struct {
	record Record
	valid  bool // the record was written for the object, and is the one that was written last
	sealed bool // it is in the form of this version
}

// RecordOf returns the valid record of an object. Otherwise ok is false.
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
		return recordState{} // somebody has removed the record
	}
	before, err := ParseRecord(plain)
	if err != nil {
		return recordState{}
	}
	value, recorded := annotations[n.Record]
	seal, sealed := o.GetLabels()[n.Seal]
	fits := recorded && sealed && seal == SealOf(value)
	switch own := before.UID == o.GetUID(); {
	case own && !recorded && !sealed: // nobody but v0.1 has written it yet
		return recordState{record: before, valid: true}
	case own && fits && value != plain: // v0.1 has written it last; whoever restores annotations, restores both
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

// foreign returns the annotations with the records of other objects, which whoever copies annotations may put over theirs: after
// kubectl rollout undo a Deployment has that of a ReplicaSet. Those of the object's own owners are none of them: their
// controllers would put them back.
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
