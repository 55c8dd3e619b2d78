package sharder

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/bellwether-k8s/bellwether/ring"
)

// plan is where objects belong under one membership. It never changes.
type plan struct {
	members membership
	ring    *ring.Ring
	past    []placement // those before, since the ring was settled
}

// placement is one membership and its ring.
type placement struct {
	members membership
	ring    *ring.Ring
}

// newPlan returns the plan for the last membership of a history, which has members.
func newPlan(h history, options ...ring.Option) (*plan, error) {
	var all []placement
	for _, m := range h {
		r, err := ring.New(m.names(), options...)
		if err != nil {
			return nil, fmt.Errorf("ring of %q: %w", m.names(), err)
		}
		all = append(all, placement{m, r})
	}
	present := all[len(all)-1]
	return &plan{members: present.members, ring: present.ring, past: all[:len(all)-1]}, nil
}

func (p placement) owner(hash uint64) (tenant, bool) {
	name, ok := p.ring.OwnerHash(hash)
	if !ok {
		return tenant{}, false
	}
	return p.members.member(name)
}

// target is the owner of a key.
func (p *plan) target(hash uint64) tenant {
	t, _ := placement{p.members, p.ring}.owner(hash) // a plan has members
	return t
}

// owners are all who have owned a key since the ring was settled, the present one last. They are in the order in which every
// sharder asks them.
func (p *plan) owners(hash uint64) []tenant {
	var all []tenant
	for _, before := range p.past {
		if t, ok := before.owner(hash); ok && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	target := p.target(hash)
	return append(slices.DeleteFunc(all, func(t tenant) bool { return t == target }), target)
}

// maxSelector is up to which length the members are named in the selector of a watch: it is part of a URL.
const maxSelector = 4096

// strays selects the objects that are with none of the members: unassigned ones, those of shards that are gone, and those with
// the label of a shard that never was. With so many members that a URL cannot name them, it selects the unassigned ones.
func (p *plan) strays(n names, base labels.Selector) labels.Selector {
	if s := with(base, n.shard, selection.NotIn, p.members.names()...); len(s.String()) <= maxSelector {
		return s
	}
	return with(base, n.shard, selection.DoesNotExist)
}

// with narrows a selector. The name of the label and the values are valid.
func with(base labels.Selector, key string, op selection.Operator, values ...string) labels.Selector {
	requirement, err := labels.NewRequirement(key, op, values)
	if err != nil {
		panic(fmt.Sprintf("sharder: select %s %s %q: %v", key, op, values, err))
	}
	return base.Add(*requirement)
}
