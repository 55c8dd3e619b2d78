package ring

import (
	"errors"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Ring maps keys to members. A Ring never changes, so any number of goroutines may use it without
// locks. The zero Ring has no members.
type Ring struct {
	members []string // sorted, no duplicates
	weights []int    // by member; nil if all are 1
	table   table
}

// New builds the ring of these members. Order and duplicates do not matter. A name is any string
// except the empty one. The ring may have no members.
//
// It returns an error that names the field, the rule and the value if a name is empty, if there are
// more than [MaxMembers], or if an option or the total number of tokens is out of range.
func New(members []string, opts ...Option) (*Ring, error) {
	o := options{tokens: DefaultTokens}
	for _, opt := range opts {
		opt(&o)
	}
	sorted := slices.Clone(members)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	if err := errors.Join(checkMembers(members, sorted), o.check(sorted)); err != nil {
		return nil, err
	}
	r := &Ring{members: sorted, weights: o.weightsOf(sorted)}
	r.table = newTable(sorted, func(member int) int { return o.tokens * r.weight(member) })
	return r, nil
}

// Owner returns the member that owns key, and false if the ring is empty.
func (r *Ring) Owner(key string) (string, bool) {
	return r.name(r.table.owner(xxhash.Sum64String(key)))
}

// OwnerBytes is [Ring.Owner] for a key in a buffer, which need not become a string.
func (r *Ring) OwnerBytes(key []byte) (string, bool) {
	return r.name(r.table.owner(xxhash.Sum64(key)))
}

// OwnerHash is [Ring.Owner] for a key whose xxHash64 with seed 0 is known, for example to look up
// one key in several rings.
func (r *Ring) OwnerHash(hash uint64) (string, bool) {
	return r.name(r.table.owner(hash))
}

func (r *Ring) name(slot uint64) (string, bool) {
	if m := memberOf(slot); m < len(r.members) {
		return r.members[m], true
	}
	return "", false
}

// Members returns the names of all members, sorted by their bytes. The caller owns the slice.
func (r *Ring) Members() []string {
	return slices.Clone(r.members)
}

func (r *Ring) weight(member int) int {
	if r.weights == nil {
		return 1
	}
	return r.weights[member]
}
