package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Membership is a set of shards among which objects are distributed, each in one of its lives: one that comes back in its next life
// makes another membership. It is sorted by name.
type Membership []OwnerEpoch

// NewMembership returns the membership of these shards, in any order.
func NewMembership(members ...OwnerEpoch) Membership {
	m := slices.Clone(Membership(members))
	slices.SortFunc(m, OwnerEpoch.Compare)
	return m
}

// Names of the members.
func (m Membership) Names() []string {
	all := make([]string, len(m))
	for i, t := range m {
		all[i] = t.Shard
	}
	return all
}

// Member returns the tenant of that name.
func (m Membership) Member(shard string) (OwnerEpoch, bool) {
	i, ok := slices.BinarySearchFunc(m, shard, func(t OwnerEpoch, name string) int { return strings.Compare(t.Shard, name) })
	if !ok {
		return OwnerEpoch{}, false
	}
	return m[i], true
}

// History is under which memberships objects may have been assigned: a shard that may be at work on
// an object whose record is lost owned it under one of them. It is stored before anything is
// assigned under a new membership.
type History struct {
	// Memberships are those since the ring was settled last, the present one last.
	Memberships []Membership
	// Displaced are objects that were not with their owner when the ring was settled, by their UIDs,
	// and who may have owned each of them before.
	Displaced Displaced
}

// Displaced is who may have owned single objects.
type Displaced map[types.UID][]OwnerEpoch

// HistoryOf returns one of a ring that was not settled under any of these memberships but, perhaps,
// the first.
func HistoryOf(memberships ...Membership) History { return History{Memberships: memberships} }

// With returns the history after a change to m.
func (h History) With(m Membership) History {
	others := slices.DeleteFunc(slices.Clone(h.Memberships), func(o Membership) bool { return slices.Equal(o, m) })
	return History{append(others, m), h.Displaced}
}

// Union returns the history of which both are part; the present membership is that of h.
func (h History) Union(other History) History {
	all := History{slices.Clone(other.Memberships), h.Displaced.union(other.Displaced)}
	for _, m := range h.Memberships {
		all = all.With(m)
	}
	return all
}

// Contains reports whether the history has all of another.
func (h History) Contains(other History) bool {
	for _, m := range other.Memberships {
		if !slices.ContainsFunc(h.Memberships, func(o Membership) bool { return slices.Equal(o, m) }) {
			return false
		}
	}
	return h.Displaced.contains(other.Displaced)
}

// Equal reports whether two histories say the same.
func (h History) Equal(other History) bool {
	return slices.EqualFunc(h.Memberships, other.Memberships, slices.Equal[Membership]) &&
		h.Displaced.contains(other.Displaced) && other.Displaced.contains(h.Displaced)
}

// Names reports whether a history names a shard.
func (h History) Names(shard string) bool {
	for _, owners := range h.Displaced {
		if slices.ContainsFunc(owners, func(t OwnerEpoch) bool { return t.Shard == shard }) {
			return true
		}
	}
	return slices.ContainsFunc(h.Memberships, func(m Membership) bool {
		_, ok := m.Member(shard)
		return ok
	})
}

// OwnerEpochs are all who may have owned an object.
func (h History) OwnerEpochs() []OwnerEpoch {
	all := slices.Concat(h.Memberships...)
	for _, owners := range h.Displaced {
		all = append(all, owners...)
	}
	slices.SortFunc(all, OwnerEpoch.Compare)
	return slices.Compact(all)
}

// Size is how many bytes the history takes.
func (h History) Size() int { return len(h.Encode()) }

func (a Displaced) union(other Displaced) Displaced {
	if len(other) == 0 {
		return a
	}
	all := Displaced{}
	for _, of := range []Displaced{a, other} {
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

func (a Displaced) contains(other Displaced) bool {
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
	// MaxHistory is up to how many bytes the memberships are kept one by one: a ConfigMap has room
	// for twice as much.
	MaxHistory = 512 << 10
	// MaxSettled is how many bytes a history may take when the ring counts as settled but for some
	// objects.
	MaxSettled = 256 << 10
)

// Bounded returns a history that is at most so long, if the ring has no more shards than that: it
// forgets which objects the earlier shards owned. Each of those that over does not say of that it
// has ended may have owned any object.
func (h History) Bounded(limit int, over func(OwnerEpoch) bool) History {
	last := len(h.Memberships) - 1
	if last < 1 || h.Size() <= limit {
		return h
	}
	var known []OwnerEpoch
	for _, m := range h.Memberships[:last] {
		for _, t := range m {
			if !slices.Contains(known, t) && !over(t) {
				known = append(known, t)
			}
		}
	}
	shorter := History{Displaced: h.Displaced}
	for _, t := range known {
		shorter = shorter.With(Membership{t})
	}
	return shorter.With(h.Memberships[last])
}

// step is how one membership differs from the one before.
type step struct {
	Join  []OwnerEpoch `json:"join,omitempty"` // or come back in another life
	Leave []string     `json:"leave,omitempty"`
	// Of are the UIDs of the objects that this is about; none: it is about all. For v0.1 it is
	// always about all, and then more shards are asked than need be.
	Of []types.UID `json:"of,omitempty"`
}

// Encode returns the history as it is stored: memberships are many and large while a large fleet is rolled over, the steps small.
func (h History) Encode() string {
	steps := []step{}
	var before Membership
	add := func(m Membership, of ...types.UID) {
		s := step{Of: of}
		for _, t := range m {
			if old, ok := before.Member(t.Shard); !ok || old != t {
				s.Join = append(s.Join, t)
			}
		}
		for _, t := range before {
			if _, ok := m.Member(t.Shard); !ok {
				s.Leave = append(s.Leave, t.Shard)
			}
		}
		steps, before = append(steps, s), m
	}
	of := map[OwnerEpoch][]types.UID{}
	for uid, owners := range h.Displaced {
		for _, t := range owners {
			of[t] = append(of[t], uid)
		}
	}
	for _, t := range slices.SortedFunc(maps.Keys(of), OwnerEpoch.Compare) {
		add(Membership{t}, slices.Sorted(slices.Values(of[t]))...)
	}
	for _, m := range h.Memberships {
		add(m)
	}
	raw, err := json.Marshal(steps)
	if err != nil { // impossible for these fields
		panic(fmt.Sprintf("sharder: encode the ring history: %v", err))
	}
	return string(raw)
}

// ParseHistory reads what encode has written.
func ParseHistory(value string) (History, error) {
	var steps []step
	if err := json.Unmarshal([]byte(value), &steps); err != nil {
		return History{}, fmt.Errorf("ring history: %w", err)
	}
	var h History
	present := map[string]OwnerEpoch{}
	for _, s := range steps {
		for _, name := range s.Leave {
			delete(present, name)
		}
		for _, t := range s.Join {
			if problem := t.problem(); problem != "" {
				return History{}, fmt.Errorf("ring history: %s", problem)
			}
			present[t.Shard] = t
		}
		m := NewMembership(slices.Collect(maps.Values(present))...)
		if len(s.Of) == 0 {
			h.Memberships = append(h.Memberships, m)
			continue
		}
		more := Displaced{}
		for _, uid := range s.Of {
			more[uid] = m
		}
		h.Displaced = h.Displaced.union(more)
	}
	if len(h.Memberships) == 0 {
		return History{}, errors.New("ring history: must have a membership")
	}
	return h, nil
}
