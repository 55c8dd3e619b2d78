package membership

import "github.com/bellwether-k8s/bellwether/sharder/internal/protocol"

var (
	inA  = protocol.OwnerEpoch{Shard: "a", LeaseUID: "lease-a", Epoch: 1}
	inB  = protocol.OwnerEpoch{Shard: "b", LeaseUID: "lease-b", Epoch: 1}
	inC  = protocol.OwnerEpoch{Shard: "c", LeaseUID: "lease-c", Epoch: 1}
	inA2 = protocol.OwnerEpoch{Shard: "a", LeaseUID: "lease-a", Epoch: 2} // a, after its epoch has ended
)

var onlyA, onlyB, both = protocol.NewMembership(inA), protocol.NewMembership(inB), protocol.NewMembership(inA, inB)
