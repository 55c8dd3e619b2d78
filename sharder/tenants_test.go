package sharder

var (
	inA  = tenant{"a", "lease-a", 1}
	inB  = tenant{"b", "lease-b", 1}
	inC  = tenant{"c", "lease-c", 1}
	inA2 = tenant{"a", "lease-a", 2}       // a, after its epoch has ended
	inAx = tenant{"a", "other-lease-a", 1} // a, after somebody has deleted its Lease
)

var onlyA, onlyB, both = newMembership(inA), newMembership(inB), newMembership(inA, inB)
