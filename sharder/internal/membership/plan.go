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
	past      past // of the memberships before, since the ring was settled
	displaced protocol.Displaced
}

// newPlan returns the plan for the last membership of a history, which has members.
func newPlan(h protocol.History, options ...ring.Option) (*Plan, error) {
	last := len(h.Memberships) - 1
	m := h.Memberships[last]
	r, err := ring.New(m.Names(), options...)
	if err != nil {
		return nil, fmt.Errorf("ring of %q: %w", m.Names(), err)
	}
	before, err := newPast(h.Memberships[:last], options...)
	if err != nil {
		return nil, err
	}
	return &Plan{Members: m, ring: r, past: before, displaced: h.Displaced}, nil
}

// Target returns the owner of a key.
func (p *Plan) Target(hash uint64) protocol.OwnerEpoch {
	name, _ := p.ring.OwnerHash(hash) // a plan has members
	t, _ := p.Members.Member(name)
	return t
}

// owners returns all possible owners of an object since the ring last settled, the present one
// last, in the order in which every sharder asks them.
func (p *Plan) owners(uid types.UID, hash uint64) []protocol.OwnerEpoch {
	all := slices.Clone(p.displaced[uid])
	for _, t := range p.past.owners(hash) {
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	target := p.Target(hash)
	return append(slices.DeleteFunc(all, func(t protocol.OwnerEpoch) bool { return t == target }), target)
}

// past shows which shards owned keys under several memberships. It is one ring of the members of
// all: under a membership, the owner of a key is the first of its next owners that was a member
// then. A ring for each would take a gigabyte when some hundred shards are rolled over.
type past struct {
	ring  *ring.Ring // nil: there are no memberships
	lives map[string][]tenure
	count int
}

// tenure is one life of a shard, and in which memberships it was, by their numbers.
type tenure struct {
	protocol.OwnerEpoch
	in big.Int
}

func newPast(memberships []protocol.Membership, options ...ring.Option) (past, error) {
	p := past{lives: map[string][]tenure{}, count: len(memberships)}
	if p.count == 0 {
		return p, nil
	}
	for number, m := range memberships {
		for _, t := range m {
			lives := p.lives[t.Shard]
			i := slices.IndexFunc(lives, func(l tenure) bool { return l.OwnerEpoch == t })
			if i < 0 {
				i = len(lives)
				lives = append(lives, tenure{OwnerEpoch: t})
			}
			lives[i].in.SetBit(&lives[i].in, number, 1)
			p.lives[t.Shard] = lives
		}
	}
	names := slices.Collect(maps.Keys(p.lives))
	r, err := ring.New(names, options...)
	if err != nil {
		return past{}, fmt.Errorf("ring of %d shards: %w", len(names), err)
	}
	p.ring = r
	return p, nil
}

// owners returns the owners of a key, in the order of the first membership under which each owned
// it.
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
					open.AndNot(&open, &under)
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
