package view

import (
	"cmp"
	"errors"
	"slices"

	"github.com/bellwether-k8s/bellwether/sharder"
)

// Plan is what a change of a ring's members would move.
type Plan struct {
	// Before and After are the weights of the members.
	Before map[string]int `json:"before"`
	After  map[string]int `json:"after"`
	// Objects is the number of objects without children, which go with their roots.
	Objects int `json:"objects"`
	// Moves are the numbers of objects by the shards that have them and would get them, sorted.
	// From is empty for objects that no shard has.
	Moves []sharder.Move `json:"moves"`
	Stay  int            `json:"stay"`
	// Displaced is how many objects are not with their owner on the ring now, before any change.
	Displaced int `json:"displaced"`
}

// Misfits reports whether so many objects are displaced that the ring is probably configured
// differently than the plan assumes.
func (p Plan) Misfits() bool { return p.Objects >= 4 && 2*p.Displaced > p.Objects }

// PlanOf returns what a change of the ring's shards would move.
func PlanOf(r, changed Ring, objects []Object) (Plan, error) {
	p := Plan{Before: r.Weights(), After: changed.Weights(), Moves: []sharder.Move{}}
	if len(p.After) == 0 {
		return Plan{}, errors.New("no shard would be left: all objects would wait for one")
	}
	before, err := sharder.RingOf(p.Before)
	if err != nil {
		return Plan{}, err
	}
	after, err := sharder.RingOf(p.After)
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
