package protocol

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Record says who may work on an object. It is the value of the owner annotation; the labels follow from it, not it from them.
type Record struct {
	// UID is that of the object the record was written for: a record that was copied to another object is none.
	UID types.UID `json:"uid"`
	// Shard is the identity of the owner, and LeaseUID and Epoch are the life of that shard in which it may work.
	Shard    string    `json:"shard"`
	LeaseUID types.UID `json:"leaseUID"`
	Epoch    int64     `json:"epoch"`
	State    state     `json:"state"`
	// Left are those that have still to say that they do not work on the object, before another shard may.
	Left []OwnerEpoch `json:"left,omitempty"`
	// Probed says that there was a time without a record: others than Shard may have worked on the object since the last assignment.
	Probed bool `json:"probed,omitempty"`
	// Next is to whom the owner gives the object itself when it is asked to let go; nil: it lets go
	// of it, and the sharder assigns it. It counts while the drain label has the seal of this record
	// ([names.heirOf]): a label that somebody else sets is no order to give the object to anybody.
	Next *OwnerEpoch `json:"next,omitempty"`
	// ChildFloor is, for each resource of children, the version that a cache must have reached before work may begin; empty: any. Of a
	// resource that is not in it, children may be anywhere. The keys are group resources, such as "replicasets.apps".
	ChildFloor map[string]string `json:"childFloor,omitempty"`
}

// state of an owner record.
type state string

// States of a record.
const (
	StateOwned state = "owned" // the shard may be at work
	StateFree  state = "free"  // the shard has said that it is not, and will not be
)

// OwnerEpoch is a shard, in one of its lives, that may be at work on an object without a record that says so.
type OwnerEpoch struct {
	Shard    string    `json:"shard"`
	LeaseUID types.UID `json:"leaseUID"`
	Epoch    int64     `json:"epoch"`
}

// Owner returns the owner.
func (r Record) Owner() OwnerEpoch { return OwnerEpoch{r.Shard, r.LeaseUID, r.Epoch} }

// Compare orders tenants by their shards, and those of one shard somehow.
func (c OwnerEpoch) Compare(other OwnerEpoch) int {
	return cmp.Or(cmp.Compare(c.Shard, other.Shard), cmp.Compare(c.LeaseUID, other.LeaseUID), cmp.Compare(c.Epoch, other.Epoch))
}

// problem says what is wrong, if something is.
func (c OwnerEpoch) problem() string {
	if problems := shardProblems(c.Shard); len(problems) > 0 {
		return fmt.Sprintf("shard: %s (got %q)", problems[0], c.Shard)
	}
	if c.Epoch < 1 {
		return fmt.Sprintf("epoch: must be positive (got %d)", c.Epoch)
	}
	return ""
}

// coversChildren reports whether the children of all these resources are with the owner, for caches that have reached ChildFloor.
func (r Record) coversChildren(children []schema.GroupVersionResource) bool {
	return !slices.ContainsFunc(children, func(gvr schema.GroupVersionResource) bool {
		_, known := r.ChildFloor[gvr.GroupResource().String()]
		return !known
	})
}

// Encode returns the value of the annotation.
func (r Record) Encode() string {
	raw, err := json.Marshal(r)
	if err != nil { // impossible for these fields
		panic(fmt.Sprintf("sharder: encode an owner record: %v", err))
	}
	return string(raw)
}

// ParseRecord reads the value of an annotation. What it returns is well-formed, but may be another object's.
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

// ReleaseRecord returns the record of a root that its owner has let go of, and the label that goes with it.
// It is the heir's at once, if there is one, and otherwise nobody's. family says that the root may
// have children: they go first, and only the sharder sees to that.
func (n Keys) ReleaseRecord(root metav1.Object, r Record, family bool) (label string, next *Record) {
	heir := n.successorOf(root, r)
	r.Next = nil
	if heir == nil || family || len(r.Left) > 0 {
		r.State = StateFree
		return "", &r
	}
	return heir.Shard, &Record{UID: r.UID, Shard: heir.Shard, LeaseUID: heir.LeaseUID, Epoch: heir.Epoch, State: StateOwned}
}

// successorOf returns to whom the owner of a drained root is to give it, by its valid record; nil: to
// nobody.
func (n Keys) successorOf(root metav1.Object, r Record) *OwnerEpoch {
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
