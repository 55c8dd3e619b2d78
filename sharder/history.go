package sharder

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// membership is a set of shards among which objects are distributed, each in one of its lives: one that comes back in its next life
// makes another membership. It is sorted by name.
type membership []tenant

func newMembership(members ...tenant) membership {
	m := slices.Clone(membership(members))
	slices.SortFunc(m, func(a, b tenant) int { return cmp.Compare(a.Shard, b.Shard) })
	return m
}

// names of the members.
func (m membership) names() []string {
	all := make([]string, len(m))
	for i, t := range m {
		all[i] = t.Shard
	}
	return all
}

// member returns the tenant of that name.
func (m membership) member(shard string) (tenant, bool) {
	i, ok := slices.BinarySearchFunc(m, shard, func(t tenant, name string) int { return cmp.Compare(t.Shard, name) })
	if !ok {
		return tenant{}, false
	}
	return m[i], true
}

// history is the memberships since the ring was settled last, the present one last: a shard that may be at work on an object whose record
// is lost owned it under one of them. It is stored before anything is assigned under a new membership.
type history []membership

// with returns the history after a change to m.
func (h history) with(m membership) history {
	others := slices.DeleteFunc(slices.Clone(h), func(o membership) bool { return slices.Equal(o, m) })
	return append(others, m)
}

// union returns the history of which both are part; the present one is that of h.
func (h history) union(other history) history {
	all := slices.Clone(other)
	for _, m := range h {
		all = all.with(m)
	}
	return all
}

// contains reports whether the history has all memberships of another.
func (h history) contains(other history) bool {
	for _, m := range other {
		if !slices.ContainsFunc(h, func(o membership) bool { return slices.Equal(o, m) }) {
			return false
		}
	}
	return true
}

// isJust reports whether the history is that of a ring settled under m.
func (h history) isJust(m membership) bool { return len(h) == 1 && slices.Equal(h[0], m) }

// step is how one membership differs from the one before.
type step struct {
	Join  []tenant `json:"join,omitempty"` // or come back in another life
	Leave []string `json:"leave,omitempty"`
}

// encode returns the history as it is stored: memberships are many and large while a large fleet is rolled over, the steps small.
func (h history) encode() string {
	steps := []step{}
	var before membership
	for _, m := range h {
		var s step
		for _, t := range m {
			if old, ok := before.member(t.Shard); !ok || old != t {
				s.Join = append(s.Join, t)
			}
		}
		for _, t := range before {
			if _, ok := m.member(t.Shard); !ok {
				s.Leave = append(s.Leave, t.Shard)
			}
		}
		steps, before = append(steps, s), m
	}
	raw, err := json.Marshal(steps)
	if err != nil { // impossible for these fields
		panic(fmt.Sprintf("sharder: encode the ring history: %v", err))
	}
	return string(raw)
}

// parseHistory reads what encode has written.
func parseHistory(value string) (history, error) {
	var steps []step
	if err := json.Unmarshal([]byte(value), &steps); err != nil {
		return nil, fmt.Errorf("ring history: %w", err)
	}
	if len(steps) == 0 {
		return nil, errors.New("ring history: must not be empty")
	}
	var h history
	present := map[string]tenant{}
	for _, s := range steps {
		for _, name := range s.Leave {
			delete(present, name)
		}
		for _, t := range s.Join {
			if problem := t.problem(); problem != "" {
				return nil, fmt.Errorf("ring history: %s", problem)
			}
			present[t.Shard] = t
		}
		var members []tenant
		for _, t := range present {
			members = append(members, t)
		}
		h = append(h, newMembership(members...))
	}
	return h, nil
}
