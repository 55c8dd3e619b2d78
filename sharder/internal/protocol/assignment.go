package protocol

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Assignment is what one version of a root, an object with a record of its own, says to one shard.
type Assignment int

const (
	// AssignedElsewhere is a root that the shard has nothing to do with.
	AssignedElsewhere Assignment = iota
	// AssignedHere to the shard in this epoch: it may work.
	AssignedHere
	// AssignedDraining is an assigned root that the sharder wants back.
	AssignedDraining
	// AssignedFormerEpoch roots are assigned to the shard in another epoch. The sharder, which sees every change of an epoch, assigns them
	// anew.
	AssignedFormerEpoch
	// AssignedUnrecorded roots carry the shard's label, and their record does not say why. The sharder does not see them.
	AssignedUnrecorded
)

// Self is a shard, in its present life, that looks at the objects of its ring.
type Self struct {
	Keys       Keys
	OwnerEpoch OwnerEpoch
}

// AssignmentOf of a version of a root. The record decides; the label makes visible.
func (c Self) AssignmentOf(root metav1.Object) Assignment {
	standing, _ := c.Read(root)
	return standing
}

// Read returns the standing of a version of a root, and its record if there is one.
func (c Self) Read(root metav1.Object) (Assignment, Record) {
	if c.Keys.ShardOf(root) != c.OwnerEpoch.Shard {
		return AssignedElsewhere, Record{}
	}
	// At nearly every event of nearly every root this is its record, and comparing takes less than half as long as parsing.
	r := Record{UID: root.GetUID(), Shard: c.OwnerEpoch.Shard, LeaseUID: c.OwnerEpoch.LeaseUID, Epoch: c.OwnerEpoch.Epoch, State: StateOwned}
	ok := c.Keys.carries(root, r.Encode())
	if !ok {
		r, ok = c.Keys.RecordOf(root)
	}
	switch {
	case !ok, r.Shard != c.OwnerEpoch.Shard, r.State != StateOwned:
		return AssignedUnrecorded, r
	case r.Owner() != c.OwnerEpoch:
		return AssignedFormerEpoch, r
	case c.Keys.Draining(root):
		return AssignedDraining, r
	}
	return AssignedHere, r
}
