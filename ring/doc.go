// Package ring assigns keys to members by a ring of virtual nodes (consistent hashing).
//
//	r, err := ring.New([]string{"operator-0", "operator-1", "operator-2"})
//	...
//	owner, ok := r.Owner("apps/Deployment/default/web")
//
// The owner of a key depends only on the names of the members and on the options, not on the order
// of names, on duplicates, on the process, the machine or the time. So replicas that see the same
// members agree without communication.
//
// When a member joins, only the keys that it gets move. When a member leaves, only its keys move.
// With n members that is about one key in n. [Moves] returns the exact fractions, and [Ring.Owners]
// the members that would inherit a key.
//
// A [Ring] never changes, so build one for each set of members, which takes about 20 ns per token,
// or a millisecond for 100 members. Lookups take no locks and allocate nothing.
//
// # Balance
//
// Each member has [DefaultTokens] tokens on the ring, unless [WithTokens] sets another number. The
// table shows how much the busiest member owns compared with the average: the median over many sets
// of members, and in brackets a value that one set in a hundred exceeds.
//
//	tokens    10 members     100 members    1,000 members
//	100       1.15 (1.33)    1.26 (1.40)    1.33
//	320       1.08 (1.17)    1.14 (1.23)    1.20
//	1000      1.05 (1.09)    1.08 (1.12)    1.10
//
// Similar names are no worse than random ones. These are shares of the space of hashes; no number
// of tokens balances a hundred keys. [NewBounded] limits how many of a known set of keys a member
// gets, but moves more keys when members or keys change.
//
// # Limits
//
// A ring has at most [MaxMembers] members and [MaxTotalTokens] tokens in all. A name is any string
// except the empty one, and a key is any bytes. A ring takes 14 bytes per token, plus the names.
// [New] returns an error if a value is out of range.
//
// # Not guaranteed
//
//   - Replicas that see different members, or have different options, disagree on some keys. A
//     protocol above this package must ensure that a key has one owner at a time.
//   - xxHash is fast but not cryptographic. An attacker who chooses keys can aim them at a member,
//     and one who chooses names can make the hashes of two members equal. These then share all
//     tokens, and the member with the lesser name owns the keys of both. By accident that takes
//     billions of members.
//   - Occasionally tokens of different members share a position. The token of the greater name then
//     owns nothing.
//
// # Placement
//
// This section defines the owner of every key. It is part of the interface: another placement is a
// breaking change, because replicas of two versions would disagree.
//
// Numbers have 64 bits, without sign; sums and products are modulo 2^64. H is xxHash64 with seed 0.
// A position is a number of 48 bits.
//
// The number of a member's tokens is the number of tokens per member times the member's weight, 1
// by default. The positions of its tokens are the first outputs of SplitMix64, seeded with the hash
// of its name, without the low 16 bits:
//
//	x = H(name)
//	for each token:
//		x = x + 0x9e3779b97f4a7c15
//		z = x
//		z = (z xor (z >> 30)) * 0xbf58476d1ce4e5b9
//		z = (z xor (z >> 27)) * 0x94d049bb133111eb
//		position = (z xor (z >> 31)) >> 16
//
// All tokens are sorted by position, and tokens at one position by the names of their members, byte
// by byte.
//
// The position of a key is H(key) >> 16. Its owner is the member of the first token at or after
// that position, or else of the first token of all. Its next owners are the members
// of the tokens that follow, each once, when it is first met. The first token follows the last one.
//
// For example, members a, b and c with 2 tokens each:
//
//	H(a) = 0xd24ec4f1a98c6e5b    tokens at 0x37e2cad4e004, 0x0cc0e3d17c48
//	H(b) = 0x78452aa11af39f9b    tokens at 0x434d6d9806cd, 0xa57d675f1565
//	H(c) = 0xa3dad144c40657ed    tokens at 0x48ca6a92dd61, 0x8dabbe9c3226
//
//	sorted: 0x0cc0e3d17c48 a, 0x37e2cad4e004 a, 0x434d6d9806cd b, 0x48ca6a92dd61 c, 0x8dabbe9c3226 c, 0xa57d675f1565 b
//
//	H(apple)  = 0x5889a1c15c94729f    position 0x5889a1c15c94    owner c, then b, a
//	H(key-3)  = 0x94e0519c8f6c926c    position 0x94e0519c8f6c    owner b, then a, c
//	H(banana) = 0xcef162e1813c8ce2    position 0xcef162e1813c    owner a, then b, c
//
// Names and numbers are not concatenated, so "op-1" and "op-11" have nothing in common. More
// vectors are in testdata/golden.json of this package.
package ring
