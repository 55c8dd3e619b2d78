package sharder

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Ownership is the content of an object's owner record. It is for programs that show a ring to
// people; only a shard can decide, with its caches and its lease, whether work may begin.
type Ownership struct {
	// Shard is the owner, and Epoch the one in which it may work on the object.
	Shard string
	Epoch shardlease.Epoch
	// Free means that the owner has let go of the object, so that it belongs to no shard.
	Free bool
	// Left are the shards that have yet to confirm that they do not work on the object.
	Left []string
	// Successor is the shard to which the owner hands the object over when its work has ended. It
	// is empty if the sharder assigns the object.
	Successor string
}

// OwnershipOf returns the content of the owner record of an object of this resource. ok is false if
// the object has no record, or an invalid one, such as a copy of another object's.
func OwnershipOf(ring string, resource schema.GroupResource, o metav1.Object) (_ Ownership, ok bool) {
	keys := protocol.KeysOf(ring).Of(resource)
	r, ok := keys.RecordOf(o)
	if !ok {
		return Ownership{}, false
	}
	owner := Ownership{
		Shard: r.Shard, Epoch: shardlease.Epoch{LeaseUID: r.LeaseUID, Number: r.Epoch},
		Free: r.State == protocol.StateFree,
	}
	for _, t := range r.Left {
		owner.Left = append(owner.Left, t.Shard)
	}
	if next := keys.SuccessorOf(o, r); next != nil {
		owner.Successor = next.Shard
	}
	return owner, true
}
