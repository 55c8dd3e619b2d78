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

// Membership is a set of shards, each in one epoch, among which objects are distributed. A shard
// that returns in another epoch makes another membership. It is sorted by name.
type Membership []OwnerEpoch

// NewMembership returns the membership of these shards, given in any order.
func NewMembership(members ...OwnerEpoch) Membership {
	m := slices.Clone(Membership(members))
	slices.SortFunc(m, OwnerEpoch.Compare)
	return m
}

// Names returns the names of the members.
func (m Membership) Names() []string {
	all := make([]string, len(m))
	for i, t := range m {
		all[i] = t.Shard
	}
	return all
}

// Member returns the epoch of the member of that name.
func (m Membership) Member(shard string) (OwnerEpoch, bool) {
	i, ok := slices.BinarySearchFunc(
		m, shard, func(t OwnerEpoch, name string) int { return strings.Compare(t.Shard, name) },
	)
	if !ok {
		return OwnerEpoch{}, false
	}
	return m[i], true
}

// History lists the memberships under which objects may have been assigned. A shard that may be at
// work on an object whose record is lost owned it under one of them. The history is stored before
// anything is assigned under a new membership.
type History struct {
	// Memberships are those since the ring last settled, the present one last.
	Memberships []Membership
	// Displaced are the objects, by UID, that were not with their owner when the ring settled, with
	// their possible former owners.
	Displaced Displaced
}

// Displaced is the possible owners of single objects.
type Displaced map[types.UID][]OwnerEpoch

// HistoryOf returns the history of a ring that settled at most under the first of these
// memberships.
func HistoryOf(memberships ...Membership) History { return History{Memberships: memberships} }

// With returns the history after a change to m.
func (h History) With(m Membership) History {
	others := slices.DeleteFunc(slices.Clone(h.Memberships), func(o Membership) bool { return slices.Equal(o, m) })
	return History{append(others, m), h.Displaced}
}

// Union returns a history that contains both; the present membership is that of h.
func (h History) Union(other History) History {
	all := History{slices.Clone(other.Memberships), h.Displaced.union(other.Displaced)}
	for _, m := range h.Memberships {
		all = all.With(m)
	}
	return all
}

// Contains reports whether h has everything in other.
func (h History) Contains(other History) bool {
	for _, m := range other.Memberships {
		if !slices.ContainsFunc(h.Memberships, func(o Membership) bool { return slices.Equal(o, m) }) {
			return false
		}
	}
	return h.Displaced.contains(other.Displaced)
}

// Equal reports whether two histories contain the same.
func (h History) Equal(other History) bool {
	return slices.EqualFunc(h.Memberships, other.Memberships, slices.Equal[Membership]) &&
		h.Displaced.contains(other.Displaced) && other.Displaced.contains(h.Displaced)
}

// Names reports whether the history names a shard.
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

// OwnerEpochs returns all possible owners of an object.
func (h History) OwnerEpochs() []OwnerEpoch {
	all := slices.Concat(h.Memberships...)
	for _, owners := range h.Displaced {
		all = append(all, owners...)
	}
	slices.SortFunc(all, OwnerEpoch.Compare)
	return slices.Compact(all)
}

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
	// MaxHistory bounds, in bytes, a history that keeps each membership. A ConfigMap has room for
	// twice as much.
	MaxHistory = 512 << 10
	// MaxSettled bounds, in bytes, the history of a ring that counts as settled except for some
	// objects.
	MaxSettled = 256 << 10
)

// Bounded returns a history of at most limit bytes, unless the shards alone need more. A longer
// history forgets which objects the earlier shards owned, so that each of them may have owned any
// object, unless over reports that its epoch has ended.
func (h History) Bounded(limit int, over func(OwnerEpoch) bool) History {
	last := len(h.Memberships) - 1
	if last < 1 || len(h.Encode()) <= limit {
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
	Join  []OwnerEpoch `json:"join,omitempty"` // or return in another epoch
	Leave []string     `json:"leave,omitempty"`
	// Of are the UIDs of the objects that this step is about, or empty for all objects.
	Of []types.UID `json:"of,omitempty"`
}

// Encode returns the stored form. It holds steps, because a rollout of a large fleet has many large
// memberships that differ little.
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

// ParseHistory reads what Encode has written.
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
