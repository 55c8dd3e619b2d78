package ring

import "github.com/cespare/xxhash/v2"

// Owners appends to dst the owner of key and those who would own it next, in their order, until there are n different
// members or no more. Each of them becomes the owner if all before it leave. It returns dst unchanged if n is not positive
// or the ring is empty, and allocates only if dst lacks the capacity.
func (r *Ring) Owners(dst []string, key string, n int) []string {
	n = min(n, len(r.members))
	if n <= 0 {
		return dst
	}
	i := r.table.seek(xxhash.Sum64String(key))
	if n > few {
		return r.ownersMany(dst, i, n)
	}
	var met [few]uint16
	for k := 0; ; i = r.table.after(i) {
		member := uint16(memberOf(r.table.slots[i]))
		if contains(met[:k], member) {
			continue
		}
		dst = append(dst, r.members[member])
		met[k] = member
		if k++; k == n {
			return dst
		}
	}
}

// few is up to how many members a search among those already met is faster than a set of them.
const few = 8

func contains(met []uint16, member uint16) bool {
	for _, m := range met {
		if m == member {
			return true
		}
	}
	return false
}

func (r *Ring) ownersMany(dst []string, i, n int) []string {
	var met [(MaxMembers + 1) / 64]uint64 // on the stack: 8 KiB
	for ; ; i = r.table.after(i) {
		member := memberOf(r.table.slots[i])
		word, bit := &met[member/64], uint64(1)<<(member%64)
		if *word&bit != 0 {
			continue
		}
		*word |= bit
		dst = append(dst, r.members[member])
		if n--; n == 0 {
			return dst
		}
	}
}

// after returns the index of the slot that follows i on the circle.
func (t *table) after(i int) int {
	if i++; i < len(t.slots) {
		return i
	}
	return 0
}
