package ring

import (
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Owners appends to dst the owner of key and the members that would own it next, in order: at most
// n different members. Each of them becomes the owner if all before it leave. It returns dst
// unchanged if n is not positive or the ring is empty. It allocates only if dst lacks capacity.
func (r *Ring) Owners(dst []string, key string, n int) []string {
	return r.OwnersHash(dst, xxhash.Sum64String(key), n)
}

// OwnersHash is [Ring.Owners] for a key whose xxHash64 with seed 0 is known.
func (r *Ring) OwnersHash(dst []string, hash uint64, n int) []string {
	n = min(n, len(r.members))
	if n <= 0 {
		return dst
	}
	first := r.table.seek(hash)
	if n <= window {
		return r.fewOwners(dst, first, n)
	}
	return r.manyOwners(dst, first, n)
}

// window is how many slots fewOwners examines together: few enough for two words, and usually
// enough for three members.
const window = 2 * 64 / memberBits

// fewOwners searches the first slots without a branch for each, because no branch predictor can
// know which slots hold new members.
func (r *Ring) fewOwners(dst []string, i, n int) []string {
	met := len(dst)
	if i+window <= len(r.table.slots) {
		w := (*[window]uint64)(r.table.slots[i:])
		const mask = 1<<memberBits - 1
		even := w[0]&mask | w[2]&mask<<16 | w[4]&mask<<32 | w[6]<<48
		odd := w[1]&mask | w[3]&mask<<16 | w[5]&mask<<32 | w[7]<<48
		fresh := uint64(highs | highs>>1) // a bit for each slot, in their order, whose member was not met
		for j := uint(0); fresh != 0; {
			member := w[j%window] & mask
			dst = append(dst, r.members[member])
			if n--; n == 0 {
				return dst
			}
			fresh &= differing(odd, member) | differing(even, member)>>1
			bit := uint(bits.TrailingZeros64(fresh))
			j = bit/memberBits*2 + bit%2
		}
		i += window - 1
	}
	for ; ; i = r.table.after(i) {
		name := r.members[memberOf(r.table.slots[i])]
		if slices.Contains(dst[met:], name) {
			continue
		}
		dst = append(dst, name)
		if n--; n == 0 {
			return dst
		}
	}
}

const (
	ones  = 0x0001_0001_0001_0001
	highs = ones << (memberBits - 1)
)

// differing sets the highest bit of each part of word, memberBits wide, that differs from member.
func differing(word, member uint64) uint64 {
	d := word ^ member*ones
	return (d&^highs + (highs - ones) | d) & highs
}

func (r *Ring) manyOwners(dst []string, i, n int) []string {
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
