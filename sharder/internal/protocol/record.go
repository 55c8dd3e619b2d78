package protocol

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Record states which shard may work on an object. It is the value of the owner annotation. The
// labels follow from the record, never the record from the labels.
type Record struct {
	// UID is that of the object that the record was written for. A copy on another object is
	// invalid.
	UID types.UID `json:"uid"`
	// Shard is the identity of the owner. LeaseUID and Epoch identify the epoch in which it may
	// work.
	Shard    string    `json:"shard"`
	LeaseUID types.UID `json:"leaseUID"`
	Epoch    int64     `json:"epoch"`
	State    state     `json:"state"`
	// Left are the epochs that must still acknowledge that they do not work on the object before
	// another shard may.
	Left []OwnerEpoch `json:"left,omitempty"`
	// Probed means that the object was without a record for a time, so other shards may have worked
	// on it since the last assignment.
	Probed bool `json:"probed,omitempty"`
	// Next is the successor: the epoch to which the owner hands the object over when it is asked to
	// let go. If it is nil, the owner lets go, and the sharder assigns the object. Next counts only
	// while the value of the drain label is this record's seal ([Keys.SuccessorOf]), so that a
	// drain label set by others does not hand the object over.
	Next *OwnerEpoch `json:"next,omitempty"`
	// Crashes counts the owners in a row whose process died soon after the object was assigned to
	// them. Nil means zero.
	Crashes *Crashes `json:"crashes,omitempty"`
	// ChildFloor is, for each resource of children, the version, if any, that a cache must have
	// reached before work may begin. Children of a resource that is missing here may be anywhere.
	// The keys are group resources, such as "replicasets.apps".
	ChildFloor map[string]string `json:"childFloor,omitempty"`
	// Childless is, for each resource without children when the root was assigned, a version at
	// which there were none. A cache that has not reached it may still show children that the
	// former owner has deleted. Where there are children, ChildFloor is above all deletions,
	// because the children were moved later.
	Childless map[string]string `json:"childless,omitempty"`
}

// Crashes is a count of owners that have crashed.
type Crashes struct {
	Count int `json:"count"`
	// At is when the object was assigned to the present owner, in seconds since 1970, by the clock
	// of the sharder. It is zero if that owner did not renew its Lease then, so its end proves
	// nothing about the object.
	At int64 `json:"at"`
}

// Suspicious reports whether the object may be why its owners have crashed.
func (c *Crashes) Suspicious() bool { return c != nil && c.Count > 1 }

// state is the state of a record.
type state string

// States of a record.
const (
	StateOwned state = "owned" // the shard may be at work
	StateFree  state = "free"  // the shard has acknowledged that it is not at work, and will not be
)

// OwnerEpoch is a shard in one epoch of its Lease.
type OwnerEpoch struct {
	Shard    string    `json:"shard"`
	LeaseUID types.UID `json:"leaseUID"`
	Epoch    int64     `json:"epoch"`
}

// Owner returns the owner's epoch.
func (r Record) Owner() OwnerEpoch { return OwnerEpoch{r.Shard, r.LeaseUID, r.Epoch} }

// Compare orders epochs by shard, then by Lease UID and number.
func (c OwnerEpoch) Compare(other OwnerEpoch) int {
	return cmp.Or(
		cmp.Compare(c.Shard, other.Shard), cmp.Compare(c.LeaseUID, other.LeaseUID), cmp.Compare(c.Epoch, other.Epoch),
	)
}

// problem describes what is invalid, or returns "".
func (c OwnerEpoch) problem() string {
	if c.Shard == "" {
		return `shard: must be set (got "")`
	}
	if problems := validation.IsValidLabelValue(c.Shard); len(problems) > 0 {
		return fmt.Sprintf("shard: %s (got %q)", problems[0], c.Shard)
	}
	if c.Epoch < 1 {
		return fmt.Sprintf("epoch: must be positive (got %d)", c.Epoch)
	}
	return ""
}

// Encode returns the value of the annotation.
func (r Record) Encode() string {
	raw, err := json.Marshal(r)
	if err != nil { // impossible for these fields
		panic(fmt.Sprintf("sharder: encode an owner record: %v", err))
	}
	return string(raw)
}

// ParseRecord reads the value of an annotation. The result is well-formed, but may belong to
// another object.
func ParseRecord(value string) (Record, error) {
	var r Record
	if err := json.Unmarshal([]byte(value), &r); err != nil {
		return Record{}, fmt.Errorf("owner record: %w", err)
	}
	if problem := r.Owner().problem(); problem != "" {
		return Record{}, fmt.Errorf("owner record: %s", problem)
	}
	if r.State != StateOwned && r.State != StateFree {
		return Record{}, fmt.Errorf("owner record: state: must be %q or %q (got %q)", StateOwned, StateFree, r.State)
	}
	for _, c := range r.Left {
		if problem := c.problem(); problem != "" {
			return Record{}, fmt.Errorf("owner record: left: %s", problem)
		}
	}
	if r.Next != nil {
		if problem := r.Next.problem(); problem != "" {
			return Record{}, fmt.Errorf("owner record: next: %s", problem)
		}
	}
	return r, nil
}

// ReleaseRecord returns the record of a root that its owner has let go of, and the matching shard
// label. The root goes to its successor if there is one, and is free otherwise. family means that
// the root may have children, which the sharder must move first, so such a root has no successor.
func (n Keys) ReleaseRecord(root metav1.Object, r Record, family bool) (label string, next *Record) {
	heir := n.SuccessorOf(root, r)
	r.Next, r.Crashes = nil, nil
	if heir == nil || family || len(r.Left) > 0 {
		r.State = StateFree
		return "", &r
	}
	return heir.Shard, &Record{
		UID: r.UID, Shard: heir.Shard, LeaseUID: heir.LeaseUID, Epoch: heir.Epoch, State: StateOwned,
	}
}

// SuccessorOf returns the successor, if any, of a drained root with this valid record.
func (n Keys) SuccessorOf(root metav1.Object, r Record) *OwnerEpoch {
	value, drained := root.GetLabels()[n.Drain]
	if !drained || value == "" || value != root.GetLabels()[n.Seal] {
		return nil
	}
	return r.Next
}

// Draining reports whether the object carries the drain label.
func (n Keys) Draining(o metav1.Object) bool {
	_, ok := o.GetLabels()[n.Drain]
	return ok
}

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
		r, err := ParseRecord(value)
		isOwner := func(owner metav1.OwnerReference) bool { return owner.UID == r.UID }
		if err != nil || !slices.ContainsFunc(o.GetOwnerReferences(), isOwner) {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return found
}
