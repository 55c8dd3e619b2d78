package protocol

var (
	inA  = OwnerEpoch{"a", "lease-a", 1}
	inB  = OwnerEpoch{"b", "lease-b", 1}
	inC  = OwnerEpoch{"c", "lease-c", 1}
	inA2 = OwnerEpoch{"a", "lease-a", 2}       // a, after its epoch has ended
	inAx = OwnerEpoch{"a", "other-lease-a", 1} // a, after its Lease was deleted
)

var onlyA, both = NewMembership(inA), NewMembership(inA, inB)
