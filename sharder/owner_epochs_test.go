package sharder

import "github.com/bellwether-k8s/bellwether/sharder/internal/protocol"

var (
	inA  = protocol.OwnerEpoch{"a", "lease-a", 1}
	inB  = protocol.OwnerEpoch{"b", "lease-b", 1}
	inC  = protocol.OwnerEpoch{"c", "lease-c", 1}
	inA2 = protocol.OwnerEpoch{"a", "lease-a", 2}       // a, after its epoch has ended
	inAx = protocol.OwnerEpoch{"a", "other-lease-a", 1} // a, after somebody has deleted its Lease
)

var onlyA, onlyB, both = protocol.NewMembership(inA), protocol.NewMembership(inB), protocol.NewMembership(inA, inB)
