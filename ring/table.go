package ring

import (
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// table holds the sorted tokens, each at its home or shortly behind it, so that a lookup reads one
// place in memory instead of log2 of their number.
//
// The home of a token is where it would be if all tokens were equally far apart in the first span
// slots. If that slot is taken, tokens move on and stay sorted. A slot without a token holds a copy
// of the next token, so a lookup that starts at the home of a hash finds the successor in the first
// slots. The last slots have a position that no hash exceeds, and hold the member of the first
// token: they close the circle.
type table struct {
	span  uint64
	slots []uint64 // a position in the high bits, the index of a member in the low 16
}

const (
	memberBits   = 16
	lastPosition = 1<<(64-memberBits) - 1

	// vacant is greater than every token: MaxMembers excludes its member.
	vacant = ^uint64(0)

	// stride is how many slots a lookup compares at once. With 7 slots for 4 tokens, 14 bytes per
	// token, a lookup rarely needs more.
	stride = 4
)

func memberOf(slot uint64) int       { return int(slot & (1<<memberBits - 1)) }
func positionOf(slot uint64) uint64  { return slot >> memberBits }
func firstAt(position uint64) uint64 { return position << memberBits } // not greater than any token there

// home returns the index of a slot in the span if all tokens were equally far apart.
func (t *table) home(slot uint64) uint64 {
	i, _ := bits.Mul64(slot, t.span)
	return i
}

func newTable(members []string, tokens func(member int) int) table {
	total := 0
	for m := range members {
		total += tokens(m)
	}
	if total == 0 {
		return table{}
	}
	span := total * 7 / 4
	const slack = 16 // for tokens that the last homes have no room for; usually enough
	t := table{span: uint64(span), slots: make([]uint64, span+slack, span+slack+stride)}
	for i := range t.slots {
		t.slots[i] = vacant
	}
	for m, name := range members {
		s := newStream(name)
		for range tokens(m) {
			t.insert(firstAt(s.next()) | uint64(m))
		}
	}
	t.close()
	return t
}

// insert puts a token before the first greater one behind its home. The result does not depend on
// the order of insertions.
func (t *table) insert(token uint64) {
	for i := t.home(token); token != vacant; i++ {
		if i == uint64(len(t.slots)) {
			t.slots = append(t.slots, vacant)
		}
		if token < t.slots[i] {
			token, t.slots[i] = t.slots[i], token
		}
	}
}

// close adds the last slots, and fills vacant slots with their successors.
func (t *table) close() {
	first := t.slots[slices.IndexFunc(t.slots, func(slot uint64) bool { return slot != vacant })]
	next := firstAt(lastPosition) | uint64(memberOf(first))
	for range stride {
		t.slots = append(t.slots, vacant)
	}
	for i, slot := range slices.Backward(t.slots) {
		if slot == vacant {
			t.slots[i] = next
		} else {
			next = slot
		}
	}
}

// owner returns the first slot whose position is not before that of hash, or vacant without tokens.
func (t *table) owner(hash uint64) uint64 {
	want := firstAt(positionOf(hash))
	for i := t.home(want); i+stride <= uint64(len(t.slots)); i += stride {
		s := t.slots[i : i+stride]
		// Slots are sorted, so the last assignment is that of the first slot. While the values are
		// loaded before they are compared, these are conditional moves. Which slot it is cannot be
		// predicted: with a branch for each, a lookup would be slower.
		found, s2, s1, s0 := s[3], s[2], s[1], s[0]
		if s2 >= want {
			found = s2
		}
		if s1 >= want {
			found = s1
		}
		if s0 >= want {
			found = s0
		}
		if found >= want {
			return found
		}
	}
	return vacant
}

// seek returns the index of the slot that owner returns. There must be tokens.
func (t *table) seek(hash uint64) int {
	want := firstAt(positionOf(hash))
	i := t.home(want)
	for {
		s := t.slots[i : i+stride]
		_, b0 := bits.Sub64(s[0], want, 0)
		_, b1 := bits.Sub64(s[1], want, 0)
		_, b2 := bits.Sub64(s[2], want, 0)
		_, b3 := bits.Sub64(s[3], want, 0)
		less := b0 + b1 + b2 + b3
		i += less
		if less < stride {
			return int(i)
		}
	}
}

// after returns the index of the next slot on the circle.
func (t *table) after(i int) int {
	if i++; i < len(t.slots) {
		return i
	}
	return 0
}

// stream yields the positions of a member's tokens in order: SplitMix64, seeded with the hash of
// the name.
//
// Names and numbers are not concatenated, so different pairs cannot collide. A member that gets
// more tokens keeps those it has.
type stream uint64

func newStream(member string) stream {
	return stream(xxhash.Sum64String(member))
}

func (s *stream) next() (position uint64) {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return positionOf(z ^ z>>31)
}
