package view

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/bellwether-k8s/bellwether/ring"
	"github.com/bellwether-k8s/bellwether/sharder"
)

// Plan is what a change of a ring's members would move.
type Plan struct {
	Before []string `json:"before"`
	After  []string `json:"after"`
	// Objects is the number of objects without children, which go with their roots.
	Objects int `json:"objects"`
	// Moves are the numbers of objects by the shards that have them and would get them, sorted.
	// From is empty for objects that no shard has.
	Moves []sharder.Move `json:"moves"`
	Stay  int            `json:"stay"`
	// Displaced is how many objects are not with their owner on the ring now, before any change.
	Displaced int `json:"displaced"`
}

// Change is a change of a ring's members.
type Change struct {
	Without, With []string
	// Tokens is how many places each shard has on the ring.
	Tokens int
}

// Misfits reports whether so many objects are displaced that the ring is probably configured
// differently than the plan assumes.
func (p Plan) Misfits() bool { return p.Objects >= 4 && 2*p.Displaced > p.Objects }

// PlanOf returns what a change of the ring's members would move.
func PlanOf(r Ring, objects []Object, c Change) (Plan, error) {
	p := Plan{Before: r.Members(), Moves: []sharder.Move{}}
	p.After = slices.Clone(p.Before)
	for _, name := range c.Without {
		i := slices.Index(p.After, name)
		if i < 0 {
			return Plan{}, fmt.Errorf("shard %s is no member of ring %s, whose members are %q", name, r.Name, p.Before)
		}
		p.After = slices.Delete(p.After, i, i+1)
	}
	for _, name := range c.With {
		if slices.Contains(p.After, name) {
			return Plan{}, fmt.Errorf("shard %s is a member of ring %s already", name, r.Name)
		}
		p.After = append(p.After, name)
	}
	slices.Sort(p.After)
	if len(p.After) == 0 {
		return Plan{}, errors.New("no shard would be left: all objects would wait for one")
	}
	before, err := ring.New(p.Before, ring.WithTokens(c.Tokens))
	if err != nil {
		return Plan{}, err
	}
	after, err := ring.New(p.After, ring.WithTokens(c.Tokens))
	if err != nil {
		return Plan{}, err
	}
	children := map[string]bool{}
	for _, count := range r.Resources {
		children[count.Resource] = count.Objects == 0
	}
	moves := map[sharder.Move]int{}
	for _, o := range objects {
		if children[o.Resource] {
			continue
		}
		p.Objects++
		has := o.holder()
		if owner, _ := before.Owner(o.Key); owner != has {
			p.Displaced++
		}
		if owner, _ := after.Owner(o.Key); owner == has {
			p.Stay++
		} else {
			moves[sharder.Move{From: has, To: owner}]++
		}
	}
	for m, n := range moves {
		m.Objects = n
		p.Moves = append(p.Moves, m)
	}
	slices.SortFunc(p.Moves, func(a, b sharder.Move) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return p, nil
}
