package ring

import (
	"cmp"
	"slices"
)

// Move is a part of all keys that changes its owner.
type Move struct {
	From, To string  // "": that ring is empty
	Fraction float64 // of the space of hashes, more than 0 and at most 1
}

// Moves returns the difference of two rings: one Move for each pair of members between which keys
// move, sorted by From, then To. It is empty if and only if every key has the same owner in both.
//
// Fractions are exact multiples of 2^-48, as are their sums. Of k real keys, about k*Fraction move,
// give or take its square root.
//
// The moves from the empty ring are the shares of the members.
func Moves(before, after *Ring) []Move {
	type pair struct{ from, to int }
	positions := map[pair]uint64{} // how many pass
	counterparts := before.counterparts(after)
	b, a := cursor{table: &before.table}, cursor{table: &after.table}
	for start := uint64(0); start <= lastPosition; {
		from, endBefore := b.owner(start)
		to, endAfter := a.owner(start)
		end := min(endBefore, endAfter)
		if counterparts[from] != to {
			positions[pair{from, to}] += end - start + 1
		}
		start = end + 1
	}
	moves := make([]Move, 0, len(positions))
	for p, n := range positions {
		moves = append(moves,
			Move{From: before.owners()[p.from], To: after.owners()[p.to], Fraction: float64(n) / (lastPosition + 1)})
	}
	slices.SortFunc(moves, func(x, y Move) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To)) })
	return moves
}

// owners returns the names that own keys: the members, or "" for an empty ring.
func (r *Ring) owners() []string {
	if len(r.members) == 0 {
		return []string{""}
	}
	return r.members
}

// counterparts returns for each owner the index of the owner of the same name in other, or -1.
func (r *Ring) counterparts(other *Ring) []int {
	counterparts := make([]int, len(r.owners()))
	for i, name := range r.owners() {
		c, found := slices.BinarySearch(other.owners(), name)
		if !found {
			c = -1
		}
		counterparts[i] = c
	}
	return counterparts
}

// cursor walks once around a table.
type cursor struct {
	table *table
	slot  int
}

// owner returns the owner of a position, and the last position of its uninterrupted range. Ask for
// positions in ascending order.
func (c *cursor) owner(position uint64) (owner int, end uint64) {
	if len(c.table.slots) == 0 {
		return 0, lastPosition
	}
	for positionOf(c.table.slots[c.slot]) < position {
		c.slot++
	}
	slot := c.table.slots[c.slot]
	return memberOf(slot), positionOf(slot)
}
