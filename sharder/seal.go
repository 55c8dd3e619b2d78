package sharder

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

// sealOf is the value of the seal label for a record.
func sealOf(value string) string { return strconv.FormatUint(xxhash.Sum64String(value), 16) }

// paper is what an object says about its owner.
type paper struct {
	record record
	valid  bool // the record was written for the object, and is the one that was written last
	sealed bool // it is in the form of this version
}

// recordOf returns the valid record of an object. Otherwise ok is false.
func (n names) recordOf(o metav1.Object) (r record, ok bool) {
	p := n.paperOf(o)
	return p.record, p.valid
}

// carries reports whether an object has this value as its record, in the form of this version.
func (n names) carries(o metav1.Object, value string) bool {
	annotations := o.GetAnnotations()
	return annotations[n.record] == value && annotations[n.owner] == value && o.GetLabels()[n.seal] == sealOf(value)
}

// paperOf reads the record of an object.
func (n names) paperOf(o metav1.Object) paper {
	annotations := o.GetAnnotations()
	plain, ok := annotations[n.owner]
	if !ok {
		return paper{} // somebody has removed the record
	}
	before, err := parseRecord(plain)
	if err != nil {
		return paper{}
	}
	value, recorded := annotations[n.record]
	seal, sealed := o.GetLabels()[n.seal]
	fits := recorded && sealed && seal == sealOf(value)
	switch own := before.UID == o.GetUID(); {
	case own && !recorded && !sealed: // nobody but v0.1 has written it yet
		return paper{record: before, valid: true}
	case own && fits && value != plain: // v0.1 has written it last; whoever restores annotations, restores both
		return paper{record: before, valid: true}
	case own && fits:
		return paper{record: before, valid: true, sealed: true}
	case own || !fits:
		return paper{}
	}
	r, err := parseRecord(value) // the other annotation is a copy of another object's
	if err != nil || r.UID != o.GetUID() {
		return paper{}
	}
	return paper{record: r, valid: true, sealed: true}
}

// foreign returns the annotations with the records of other objects, which whoever copies annotations may put over theirs: after
// kubectl rollout undo a Deployment has that of a ReplicaSet. Those of the object's own owners are none of them: their
// controllers would put them back.
func (n names) foreign(o metav1.Object) (found []string) {
	for key, value := range o.GetAnnotations() {
		if key == n.record || !n.isRecord(key) {
			continue
		}
		if r, err := parseRecord(value); err != nil || !owns(o, r.UID) {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return found
}

func owns(o metav1.Object, owner types.UID) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner })
}
