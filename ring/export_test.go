package ring

// Positions returns those of a member's first n tokens, in the order in which they are made.
func Positions(member string, n int) []uint64 {
	s := newStream(member)
	positions := make([]uint64, n)
	for i := range positions {
		positions[i] = s.next()
	}
	return positions
}
