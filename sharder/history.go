package sharder

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// membership is a set of shards among which objects are distributed, each in one of its lives: one that comes back in its next life
// makes another membership. It is sorted by name.
type membership []tenant

func newMembership(members ...tenant) membership {
	m := slices.Clone(membership(members))
	slices.SortFunc(m, tenant.compare)
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
	i, ok := slices.BinarySearchFunc(m, shard, func(t tenant, name string) int { return strings.Compare(t.Shard, name) })
	if !ok {
		return tenant{}, false
	}
	return m[i], true
}

// history is under which memberships objects may have been assigned: a shard that may be at work on
// an object whose record is lost owned it under one of them. It is stored before anything is
// assigned under a new membership.
type history struct {
	// memberships are those since the ring was settled last, the present one last.
	memberships []membership
	// apart are objects that were not with their owner when the ring was settled, by their UIDs,
	// and who may have owned each of them before.
	apart apart
}

// apart is who may have owned single objects.
type apart map[types.UID][]tenant

// historyOf returns one of a ring that was not settled under any of these memberships but, perhaps,
// the first.
func historyOf(memberships ...membership) history { return history{memberships: memberships} }

// with returns the history after a change to m.
func (h history) with(m membership) history {
	others := slices.DeleteFunc(slices.Clone(h.memberships), func(o membership) bool { return slices.Equal(o, m) })
	return history{append(others, m), h.apart}
}

// union returns the history of which both are part; the present membership is that of h.
func (h history) union(other history) history {
	all := history{slices.Clone(other.memberships), h.apart.union(other.apart)}
	for _, m := range h.memberships {
		all = all.with(m)
	}
	return all
}

// contains reports whether the history has all of another.
func (h history) contains(other history) bool {
	for _, m := range other.memberships {
		if !slices.ContainsFunc(h.memberships, func(o membership) bool { return slices.Equal(o, m) }) {
			return false
		}
	}
	return h.apart.contains(other.apart)
}

// equal reports whether two histories say the same.
func (h history) equal(other history) bool {
	return slices.EqualFunc(h.memberships, other.memberships, slices.Equal[membership]) &&
		h.apart.contains(other.apart) && other.apart.contains(h.apart)
}

// names reports whether a history names a shard.
func (h history) names(shard string) bool {
	for _, owners := range h.apart {
		if slices.ContainsFunc(owners, func(t tenant) bool { return t.Shard == shard }) {
			return true
		}
	}
	return slices.ContainsFunc(h.memberships, func(m membership) bool {
		_, ok := m.member(shard)
		return ok
	})
}

// tenants are all who may have owned an object.
func (h history) tenants() []tenant {
	all := slices.Concat(h.memberships...)
	for _, owners := range h.apart {
		all = append(all, owners...)
	}
	slices.SortFunc(all, tenant.compare)
	return slices.Compact(all)
}

// size is how many bytes the history takes.
func (h history) size() int { return len(h.encode()) }

func (a apart) union(other apart) apart {
	if len(other) == 0 {
		return a
	}
	all := apart{}
	for _, of := range []apart{a, other} {
		for uid, owners := range of {
			for _, t := range owners {
				if !slices.Contains(all[uid], t) {
					all[uid] = append(all[uid], t)
				}
			}
		}
	}
	return all
}

func (a apart) contains(other apart) bool {
	for uid, owners := range other {
		for _, t := range owners {
			if !slices.Contains(a[uid], t) {
				return false
			}
		}
	}
	return true
}

const (
	// maxHistory is up to how many bytes the memberships are kept one by one: a ConfigMap has room
	// for twice as much.
	maxHistory = 512 << 10
	// maxSettled is how many bytes a history may take when the ring counts as settled but for some
	// objects.
	maxSettled = 256 << 10
)

// bounded returns a history that is at most so long, if the ring has no more shards than that: it
// forgets which objects the earlier shards owned. Each of those that over does not say of that it
// has ended may have owned any object.
func (h history) bounded(limit int, over func(tenant) bool) history {
	last := len(h.memberships) - 1
	if last < 1 || h.size() <= limit {
		return h
	}
	var known []tenant
	for _, m := range h.memberships[:last] {
		for _, t := range m {
			if !slices.Contains(known, t) && !over(t) {
				known = append(known, t)
			}
		}
	}
	shorter := history{apart: h.apart}
	for _, t := range known {
		shorter = shorter.with(membership{t})
	}
	return shorter.with(h.memberships[last])
}

// step is how one membership differs from the one before.
type step struct {
	Join  []tenant `json:"join,omitempty"` // or come back in another life
	Leave []string `json:"leave,omitempty"`
	// Of are the UIDs of the objects that this is about; none: it is about all. For v0.1 it is
	// always about all, and then more shards are asked than need be.
	Of []types.UID `json:"of,omitempty"`
}

// encode returns the history as it is stored: memberships are many and large while a large fleet is rolled over, the steps small.
func (h history) encode() string {
	steps := []step{}
	var before membership
	add := func(m membership, of ...types.UID) {
		s := step{Of: of}
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
	of := map[tenant][]types.UID{}
	for uid, owners := range h.apart {
		for _, t := range owners {
			of[t] = append(of[t], uid)
		}
	}
	for _, t := range slices.SortedFunc(maps.Keys(of), tenant.compare) {
		add(membership{t}, slices.Sorted(slices.Values(of[t]))...)
	}
	for _, m := range h.memberships {
		add(m)
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
		return history{}, fmt.Errorf("ring history: %w", err)
	}
	var h history
	present := map[string]tenant{}
	for _, s := range steps {
		for _, name := range s.Leave {
			delete(present, name)
		}
		for _, t := range s.Join {
			if problem := t.problem(); problem != "" {
				return history{}, fmt.Errorf("ring history: %s", problem)
			}
			present[t.Shard] = t
		}
		m := newMembership(slices.Collect(maps.Values(present))...)
		if len(s.Of) == 0 {
			h.memberships = append(h.memberships, m)
			continue
		}
		more := apart{}
		for _, uid := range s.Of {
			more[uid] = m
		}
		h.apart = h.apart.union(more)
	}
	if len(h.memberships) == 0 {
		return history{}, errors.New("ring history: must have a membership")
	}
	return h, nil
}
