package membership

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/ring"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// Plan determines where objects belong under one membership. It never changes.
type Plan struct {
	Members   protocol.Membership
	living    protocol.Membership // the members that renewed their Leases when the plan was made
	ring      *ring.Ring
	weights   map[string]int
	past      past // of the memberships before, since the ring was settled
	displaced protocol.Displaced
	diverted  map[uint64]string // hashes of keys, and the shards that they have instead of their owners on the ring
}

// newPlan returns the plan for the membership m, the present one of a history.
func newPlan(h protocol.History, m protocol.Membership, diverted map[uint64]string) (*Plan, error) {
	weights := greatestWeights(m)
	r, err := RingOf(weights)
	if err != nil {
		return nil, fmt.Errorf("ring of %q: %w", m.Names(), err)
	}
	former := h.Memberships
	if last := len(former) - 1; slices.Equal(former[last], m) {
		former = former[:last]
	}
	before, err := newPast(former)
	if err != nil {
		return nil, err
	}
	return &Plan{
		Members: m, ring: r, weights: weights, past: before, displaced: h.Displaced, diverted: diverted,
	}, nil
}

// greatestWeights returns the greatest weight of each shard.
func greatestWeights(memberships ...protocol.Membership) map[string]int {
	weights := map[string]int{}
	for _, t := range slices.Concat(memberships...) {
		weights[t.Shard] = max(weights[t.Shard], t.Weight)
	}
	return weights
}

// Target returns the owner of a key.
func (p *Plan) Target(hash uint64) protocol.OwnerEpoch {
	if name, ok := p.diverted[hash]; ok {
		t, _ := p.Members.Member(name)
		return t
	}
	return p.home(hash)
}

// livingTarget returns the owner of a key among the members that renewed their Leases when the plan was made;
// ok is false if there was no such member.
func (p *Plan) livingTarget(hash uint64) (t protocol.OwnerEpoch, ok bool) {
	if t, ok = p.living.Member(p.diverted[hash]); ok {
		return t, true
	}
	for _, name := range p.ring.OwnersHash(nil, hash, len(p.Members)) {
		if t, ok = p.living.Member(name); ok {
			return t, true
		}
	}
	return t, false
}

// home returns the owner of a key on the ring.
func (p *Plan) home(hash uint64) protocol.OwnerEpoch {
	name, _ := p.ring.OwnerHash(hash) // a plan has members
	t, _ := p.Members.Member(name)
	return t
}

// owners returns all possible owners of an object since the ring last settled, the present one
// last, in the order in which every sharder asks them.
func (p *Plan) owners(uid types.UID, hash uint64) []protocol.OwnerEpoch {
	target := p.Target(hash)
	var all []protocol.OwnerEpoch
	for _, t := range slices.Concat(p.displaced[uid], p.displaced[keyed(hash)], p.past.owners(hash),
		[]protocol.OwnerEpoch{p.home(hash)}) {
		if t != target && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return append(all, target)
}

// keyed stands for all objects of a key among those that have possible owners of their own.
func keyed(hash uint64) types.UID { return types.UID(fmt.Sprintf("key %016x", hash)) }

// past shows which shards may have owned keys under several memberships. It is one ring of the members of
// all, each with the greatest weight that it had: under a membership, the owner of a key is one of the next
// owners that were members then, up to the first whose weight was that all the time. A ring for each would
// take a gigabyte when some hundred shards are rolled over.
type past struct {
	ring  *ring.Ring // nil: there are no memberships
	lives map[string][]tenure
	count int
}

// tenure is one life of a shard, and in which memberships it was, by their numbers: in any, and with its
// greatest weight all the time.
type tenure struct {
	protocol.OwnerEpoch
	in, full big.Int
}

func newPast(memberships []protocol.Membership) (past, error) {
	p := past{lives: map[string][]tenure{}, count: len(memberships)}
	if p.count == 0 {
		return p, nil
	}
	greatest := greatestWeights(memberships...)
	for number, m := range memberships {
		for _, t := range m {
			lives := p.lives[t.Shard]
			i := slices.IndexFunc(lives, func(l tenure) bool { return l.OwnerEpoch == t.OwnerEpoch })
			if i < 0 {
				i = len(lives)
				lives = append(lives, tenure{OwnerEpoch: t.OwnerEpoch})
			}
			lives[i].in.SetBit(&lives[i].in, number, 1)
			if t.Least == greatest[t.Shard] {
				lives[i].full.SetBit(&lives[i].full, number, 1)
			}
			p.lives[t.Shard] = lives
		}
	}
	r, err := RingOf(greatest)
	if err != nil {
		return past{}, fmt.Errorf("ring of %d shards: %w", len(greatest), err)
	}
	p.ring = r
	return p, nil
}

// owners returns the possible owners of a key, in the order of the first membership under which each may
// have owned it.
func (p past) owners(hash uint64) []protocol.OwnerEpoch {
	type owner struct {
		protocol.OwnerEpoch
		first uint
	}
	var found []owner
	var open, under big.Int // memberships
	open.Sub(open.Lsh(big.NewInt(1), uint(p.count)), big.NewInt(1))
	var names []string
	for n := 4; open.Sign() != 0; n *= 4 {
		before := len(names)
		names = p.ring.OwnersHash(names[:0], hash, n)
		for _, name := range names[before:] {
			for _, life := range p.lives[name] {
				if under.And(&open, &life.in).Sign() != 0 {
					found = append(found, owner{life.OwnerEpoch, under.TrailingZeroBits()})
					open.AndNot(&open, &life.full)
				}
			}
		}
		if n > len(p.lives) { // a membership without members
			break
		}
	}
	slices.SortFunc(found, func(a, b owner) int { return cmp.Compare(a.first, b.first) })
	all := make([]protocol.OwnerEpoch, len(found))
	for i, o := range found {
		all[i] = o.OwnerEpoch
	}
	return all
}

// TokensPerWeight is how many places a shard has on the ring for each unit of its weight: 3,200 with the
// default weight. By that many, shards of weight 20 and more get within a tenth of their share of 10,000
// objects, in 93 of 100 rings.
const TokensPerWeight = 32

// RingOf returns the ring of shards with these weights. Those of weight 0 have no place on it.
func RingOf(weights map[string]int) (*ring.Ring, error) {
	weights = maps.Clone(weights)
	maps.DeleteFunc(weights, func(_ string, weight int) bool { return weight == 0 })
	return ring.New(slices.Collect(maps.Keys(weights)), ring.WithTokens(TokensPerWeight), ring.WithWeights(weights))
}
