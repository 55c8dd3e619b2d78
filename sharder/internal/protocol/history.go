package protocol

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
)

// Membership is a set of shards, each in one epoch, among which objects are distributed. A shard
// that returns in another epoch makes another membership. It is sorted by name.
type Membership []Member

// Member is a shard of a membership, and its part of the objects.
type Member struct {
	OwnerEpoch
	// Weight is the shard's weight, at least 1. Of a history, it is the greatest that the shard had.
	Weight int `json:"weight,omitempty"`
	// Least is the least weight that the shard had in a membership of a history; otherwise Weight.
	Least int `json:"least,omitempty"`
}

// NewMember returns the member with this weight.
func NewMember(t OwnerEpoch, weight int) Member { return Member{t, weight, weight} }

// NewMembership returns the membership of these shards, given in any order, with the default weight.
func NewMembership(shards ...OwnerEpoch) Membership {
	m := make(Membership, len(shards))
	for i, t := range shards {
		m[i] = NewMember(t, shardrecord.DefaultWeight)
	}
	return m.Sorted()
}

// Sorted returns a membership of members in any order.
func (m Membership) Sorted() Membership {
	return slices.SortedFunc(slices.Values(m), func(a, b Member) int { return a.Compare(b.OwnerEpoch) })
}

// OwnerEpochs returns the members without their weights.
func (m Membership) OwnerEpochs() []OwnerEpoch {
	all := make([]OwnerEpoch, len(m))
	for i, t := range m {
		all[i] = t.OwnerEpoch
	}
	return all
}

// covers reports whether two memberships have the same members, and the weights of m include those of other.
func (m Membership) covers(other Membership) bool {
	return slices.EqualFunc(m, other, func(a, b Member) bool {
		return a.OwnerEpoch == b.OwnerEpoch && a.Least <= b.Least && a.Weight >= b.Weight
	})
}

// over returns m with all weights that its members have in any of the memberships.
func (m Membership) over(memberships ...Membership) Membership {
	ranged := slices.Clone(m)
	for i, t := range ranged {
		for _, other := range memberships {
			if at, ok := other.member(t.Shard); ok && at.OwnerEpoch == t.OwnerEpoch {
				ranged[i].Weight, ranged[i].Least = max(ranged[i].Weight, at.Weight), min(ranged[i].Least, at.Least)
			}
		}
	}
	return ranged
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
	t, ok := m.member(shard)
	return t.OwnerEpoch, ok
}

func (m Membership) member(shard string) (Member, bool) {
	i, ok := slices.BinarySearchFunc(
		m, shard, func(t Member, name string) int { return strings.Compare(t.Shard, name) },
	)
	if !ok {
		return Member{}, false
	}
	return m[i], true
}

// History lists the memberships under which objects may have been assigned. A shard that may be at
// work on an object whose record is lost owned it under one of them. The history is stored before
// anything is assigned under a new membership.
type History struct {
	// Memberships are those since the ring last settled, the present one last. Those that differ only in
	// weights are one.
	Memberships []Membership
	// Displaced are the objects, by UID, that were not with their owner when the ring settled, and the
	// keys that were diverted from theirs, with their possible former owners.
	Displaced Displaced
}

// Displaced is the possible owners of single objects, or of all of one key.
type Displaced map[types.UID][]OwnerEpoch

// HistoryOf returns the history of a ring that settled at most under the first of these
// memberships.
func HistoryOf(memberships ...Membership) History { return History{Memberships: memberships} }

// With returns the history after a change to m.
func (h History) With(m Membership) History {
	ranged := m
	others := slices.DeleteFunc(slices.Clone(h.Memberships), func(o Membership) bool {
		same := slices.EqualFunc(o, m, func(a, b Member) bool { return a.OwnerEpoch == b.OwnerEpoch })
		if same {
			ranged = ranged.over(o)
		}
		return same
	})
	return History{append(others, ranged), h.Displaced}
}

// WithOwners returns the history after single objects, or those of some keys, may have been assigned to owners.
func (h History) WithOwners(owners Displaced) History {
	return History{h.Memberships, h.Displaced.union(owners)}
}

// Present reports whether m is the present membership.
func (h History) Present(m Membership) bool {
	last := len(h.Memberships) - 1
	return last >= 0 && h.Memberships[last].covers(m)
}

// Settled returns the history of a ring that has settled under m. It has the other memberships under which an object
// may still be handed over, because a drain that was sent then can be carried out at any time while the object stays
// where it is: those with a shard that is no member, or had another weight, unless its epoch has ended.
func (h History) Settled(m Membership, ended func(OwnerEpoch) bool) History {
	var settled History
	for _, o := range h.Memberships {
		if slices.ContainsFunc(o, func(t Member) bool { return !slices.Contains(m, t) && !ended(t.OwnerEpoch) }) {
			settled = settled.With(o)
		}
	}
	return settled.With(m)
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
		if !slices.ContainsFunc(h.Memberships, func(o Membership) bool { return o.covers(m) }) {
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
	all := Membership(slices.Concat(h.Memberships...)).OwnerEpochs()
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
			if !slices.Contains(known, t.OwnerEpoch) && !over(t.OwnerEpoch) {
				known = append(known, t.OwnerEpoch)
			}
		}
	}
	shorter := History{Displaced: h.Displaced}
	for _, t := range known {
		shorter = shorter.With(NewMembership(t))
	}
	return shorter.With(h.Memberships[last])
}

// step is how one membership differs from the one before.
type step struct {
	Join  []Member `json:"join,omitempty"` // or return in another epoch, or with other weights
	Leave []string `json:"leave,omitempty"`
	// Of are the UIDs of the objects that this step is about, or empty for all objects.
	Of []types.UID `json:"of,omitempty"`
}

// short returns the stored form of a member, without the default weight.
func (t Member) short() Member {
	if t.Least == t.Weight {
		t.Least = 0
	}
	if t.Weight == shardrecord.DefaultWeight {
		t.Weight = 0
	}
	return t
}

// long returns the member of a stored form.
func (t Member) long() Member {
	t.Weight = cmp.Or(t.Weight, shardrecord.DefaultWeight)
	t.Least = cmp.Or(t.Least, t.Weight)
	return t
}

// problem describes what is invalid, or returns "".
func (t Member) problem() string {
	if t.Least < 1 || t.Least > t.Weight || t.Weight > shardrecord.MaxWeight {
		return fmt.Sprintf("weight: must be from 1 to %d, and not less than the least (got %d and %d)",
			shardrecord.MaxWeight, t.Weight, t.Least)
	}
	return t.OwnerEpoch.problem()
}

// Encode returns the stored form. It holds steps, because a rollout of a large fleet has many large
// memberships that differ little.
func (h History) Encode() string {
	steps := []step{}
	var before Membership
	add := func(m Membership, of ...types.UID) {
		s := step{Of: of}
		for _, t := range m {
			if old, ok := before.member(t.Shard); !ok || old != t {
				s.Join = append(s.Join, t.short())
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
		add(NewMembership(t), slices.Sorted(slices.Values(of[t]))...)
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
	present := map[string]Member{}
	for _, s := range steps {
		for _, name := range s.Leave {
			delete(present, name)
		}
		for _, t := range s.Join {
			t = t.long()
			if problem := t.problem(); problem != "" {
				return History{}, fmt.Errorf("ring history: %s", problem)
			}
			present[t.Shard] = t
		}
		m := Membership(slices.Collect(maps.Values(present))).Sorted()
		if len(s.Of) == 0 {
			h.Memberships = append(h.Memberships, m)
			continue
		}
		more := Displaced{}
		for _, uid := range s.Of {
			more[uid] = m.OwnerEpochs()
		}
		h.Displaced = h.Displaced.union(more)
	}
	if len(h.Memberships) == 0 {
		return History{}, errors.New("ring history: must have a membership")
	}
	return h, nil
}
