package ring

import (
	"errors"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Ring says which member owns a key. It never changes, so any number of goroutines may use it without locks. The zero
// Ring has no members.
type Ring struct {
	members []string // sorted, no duplicates
	weights []int    // by member; nil if all are 1
	table   table
}

// New builds the ring of these members. Neither their order nor duplicates matter. A name is any string but the empty
// one. No members make an empty ring, which is no error.
//
// It returns an error that names the field, the rule and the value if a name is empty, if there are more than
// [MaxMembers], or if an option or the number of tokens in all is out of its range.
func New(members []string, opts ...Option) (*Ring, error) {
	o := options{tokens: DefaultTokens}
	for _, opt := range opts {
		opt(&o)
	}
	sorted := slices.Clone(members)
	slices.Sort(sorted)
	sorted = slices.Clip(slices.Compact(sorted))
	if err := errors.Join(checkMembers(members, sorted), o.check(sorted)); err != nil {
		return nil, err
	}
	r := &Ring{members: sorted, weights: o.weightsOf(sorted)}
	r.table = newTable(sorted, func(member int) int { return o.tokens * r.weight(member) })
	return r, nil
}

// Owner returns the member that owns key, and false if the ring is empty.
func (r *Ring) Owner(key string) (string, bool) {
	return r.OwnerHash(xxhash.Sum64String(key))
}

// OwnerBytes is [Ring.Owner] for a key that was built in a buffer, so that it need not become a string.
func (r *Ring) OwnerBytes(key []byte) (string, bool) {
	return r.OwnerHash(xxhash.Sum64(key))
}

// OwnerHash is [Ring.Owner] for a key whose xxHash64 with seed 0 is known, as when one key is looked up in several rings.
func (r *Ring) OwnerHash(hash uint64) (string, bool) {
	if len(r.members) == 0 {
		return "", false
	}
	return r.members[memberOf(r.table.slots[r.table.seek(hash)])], true
}

// Members returns the names of all members, sorted by their bytes. The slice is the caller's.
func (r *Ring) Members() []string {
	return slices.Clone(r.members)
}

func (r *Ring) weight(member int) int {
	if r.weights == nil {
		return 1
	}
	return r.weights[member]
}

// table holds the tokens in their order, each at its home or shortly behind it, so that a lookup reads one place in memory
// and not log2 of them.
//
// The home of a token is its place if all tokens were equally far apart in the first span slots. Where it is taken, tokens
// move on, and stay sorted. A slot that no token needs holds a copy of the next token, so a lookup that starts at the home
// of a hash meets the successor in the first slots. The last slots, whose position no hash exceeds, hold the member of
// the first token: there the circle closes.
type table struct {
	span  uint64
	slots []uint64 // a position in the high bits, the number of a member in the low 16
}

const (
	memberBits   = 16
	lastPosition = 1<<(64-memberBits) - 1

	// vacant is greater than every token: MaxMembers keeps its member from being one.
	vacant = ^uint64(0)

	// stride is how many slots a lookup compares at once, without a branch for each. With 7 slots for 4 tokens (14 bytes
	// each) a second stride is rare.
	stride = 4
)

func memberOf(slot uint64) int          { return int(slot & (1<<memberBits - 1)) }
func positionOf(slot uint64) uint64     { return slot >> memberBits }
func firstAt(position uint64) uint64    { return position << memberBits } // not greater than any token there
func home(slot, span uint64) (i uint64) { i, _ = bits.Mul64(slot, span); return i }

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

// insert puts a token before the first greater one behind its home. Whatever the order of insertions, the table is the same.
func (t *table) insert(token uint64) {
	for i := home(token, t.span); token != vacant; i++ {
		if i == uint64(len(t.slots)) {
			t.slots = append(t.slots, vacant)
		}
		if token < t.slots[i] {
			token, t.slots[i] = t.slots[i], token
		}
	}
}

// close adds the end, and fills vacant slots with their successors.
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

// seek returns the index of the first slot whose position is not before that of hash. The table must not be empty.
func (t *table) seek(hash uint64) int {
	want := firstAt(positionOf(hash))
	i := home(want, t.span)
	for {
		s := (*[stride]uint64)(t.slots[i:])
		// Slots are sorted: as many as are less than want are to be passed.
		_, a := bits.Sub64(s[0], want, 0)
		_, b := bits.Sub64(s[1], want, 0)
		_, c := bits.Sub64(s[2], want, 0)
		_, d := bits.Sub64(s[3], want, 0)
		passed := a + b + c + d
		i += passed
		if passed < stride {
			return int(i)
		}
	}
}
