package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// Ring is a sharded controller: its shards, and its objects.
type Ring struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Sharder is the election of the ring's sharder, or nil without such a Lease.
	Sharder *Election `json:"sharder,omitempty"`
	Shards  []Shard   `json:"shards"`
	// Resources are those in which objects of the ring were found.
	Resources []Count `json:"resources"`
	// Drains are the objects that their shards have to release, the longest first.
	Drains []Drain `json:"drains"`
	// Orphans are the objects that no living shard owns.
	Orphans []Orphan `json:"orphans"`
}

// Count is how many objects of a resource a ring has. Children follow the objects that control them.
type Count struct {
	Resource string `json:"resource"`
	Objects  int    `json:"objects"`
	Children int    `json:"children"`
}

// Drain is an object that its shard has to release.
type Drain struct {
	Object
	// To is the shard that gets it, or empty if the sharder decides after the release.
	To    string    `json:"to,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// Orphan is an object that no living shard owns.
type Orphan struct {
	Object
	Why string `json:"why"`
}

// RingOf returns the ring of these shards and objects.
func RingOf(namespace, name string, sharder *Election, shards []Shard, objects []Object) Ring {
	r := Ring{
		Namespace: namespace, Name: name, Sharder: sharder, Shards: slices.Clone(shards),
		Resources: []Count{}, Drains: []Drain{}, Orphans: []Orphan{},
	}
	slices.SortFunc(r.Shards, func(a, b Shard) int { return cmp.Compare(a.Name, b.Name) })
	roots := map[string]bool{} // resources with an object that has a record
	for _, o := range objects {
		roots[o.Resource] = roots[o.Resource] || o.Owner != nil
	}
	counts := map[string]*Count{}
	for _, o := range objects {
		c := counts[o.Resource]
		if c == nil {
			c = &Count{Resource: o.Resource}
			counts[o.Resource] = c
		}
		child := o.Owner == nil && o.Controller != "" && !roots[o.Resource]
		if child {
			c.Children++
		} else {
			c.Objects++
		}
		if s := r.Shard(o.holder()); s != nil {
			switch {
			case child:
				s.Children++
			default:
				s.Objects++
			}
			if o.Draining {
				s.Draining++
			}
		}
		if o.Draining && o.holder() != "" {
			d := Drain{Object: o, Since: o.DrainSince}
			if o.Owner != nil {
				d.To = o.Owner.Successor
			}
			r.Drains = append(r.Drains, d)
		}
		if why := r.orphaned(o, child); why != "" {
			r.Orphans = append(r.Orphans, Orphan{o, why})
		}
	}
	for _, c := range counts {
		r.Resources = append(r.Resources, *c)
	}
	slices.SortFunc(r.Resources, func(a, b Count) int { return cmp.Compare(a.Resource, b.Resource) })
	slices.SortFunc(r.Drains, func(a, b Drain) int {
		return cmp.Or(a.Since.Compare(b.Since), byName(a.Object, b.Object))
	})
	slices.SortFunc(r.Orphans, func(a, b Orphan) int { return byName(a.Object, b.Object) })
	return r.with(r.Shards)
}

func byName(a, b Object) int {
	return cmp.Or(
		cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
	)
}

// Shard returns the shard with this name, or nil.
func (r Ring) Shard(name string) *Shard {
	i := slices.IndexFunc(r.Shards, func(s Shard) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Shards[i]
}

// orphaned returns why no living shard owns an object, or "" if one does.
func (r Ring) orphaned(o Object, child bool) string {
	switch {
	case child && o.Shard == "", o.Owner == nil && o.Shard == "":
		return "no shard has had it yet"
	case child:
	case o.Owner == nil:
		return "it has no valid record of its owner, so the sharder asks the shards that may be at work on it"
	case o.Owner.Free:
		return fmt.Sprintf("shard %s has let go of it, and the sharder has to assign it", o.Owner.Shard)
	}
	name := o.holder()
	s := r.Shard(name)
	switch {
	case s == nil:
		return fmt.Sprintf("shard %s has no Lease", name)
	case !s.lives():
		return fmt.Sprintf("shard %s is %s", name, s.State)
	case child:
	case string(o.Owner.Epoch.LeaseUID) != s.LeaseUID:
		return fmt.Sprintf("its record is of an earlier Lease of shard %s", name)
	case o.Owner.Epoch.Number != s.Epoch:
		return fmt.Sprintf("its record is of epoch %d of shard %s, which is in epoch %d", o.Owner.Epoch.Number, name,
			s.Epoch)
	}
	return ""
}

// Weights returns the weights of the shards among which objects are distributed: those that are not
// drained, unless all are, and not idle.
func (r Ring) Weights() map[string]int {
	weights, drained := map[string]int{}, map[string]int{}
	for _, s := range r.Shards {
		switch {
		case !s.state.Member(), s.Idle:
		case s.Weight == 0:
			drained[s.Name] = shardlease.DefaultWeight
		default:
			weights[s.Name] = s.Weight
		}
	}
	if len(weights) == 0 {
		return drained
	}
	return weights
}

// Members returns the sorted names of the shards among which objects are distributed.
func (r Ring) Members() []string { return slices.Sorted(maps.Keys(r.Weights())) }

// with returns the ring with other shards, and the shares that they get.
func (r Ring) with(shards []Shard) Ring {
	r.Shards = shards
	weights := r.Weights()
	all := 0
	for _, weight := range weights {
		all += weight
	}
	for i := range r.Shards {
		r.Shards[i].Share = float64(weights[r.Shards[i].Name]) / float64(max(1, all))
	}
	return r
}

// Weighed returns the ring with another weight of one of its shards, or with nil that of its configuration.
func (r Ring) Weighed(shard string, weight *int) Ring {
	shards := slices.Clone(r.Shards)
	for i := range shards {
		s := &shards[i]
		if s.Name == shard {
			s.Weight = *cmp.Or(weight, s.OwnWeight, &s.Weight)
		}
	}
	return r.with(shards)
}

// WeightObstacle returns why a shard must not get a weight, or "" if it may. It may always get its own,
// for which weight is nil.
func (r Ring) WeightObstacle(shard string, weight *int) string {
	switch s := r.Shard(shard); {
	case s == nil:
		return fmt.Sprintf("ring %s has no shard %s", r.Name, shard)
	case weight == nil:
	case *weight == s.Weight && s.OwnWeight != nil:
		return fmt.Sprintf("shard %s has weight %d already. --undo takes that back", shard, *weight)
	case *weight == s.Weight:
		return fmt.Sprintf("shard %s has weight %d already", shard, *weight)
	case !s.state.Member():
		return fmt.Sprintf("shard %s is %s, and gets no objects", shard, s.State)
	case *weight == 0 && slices.Contains(r.Weighed(shard, weight).Members(), shard):
		return "no other shard could get its objects"
	}
	return ""
}

// Change is shards that join a ring, as name or name=weight, and that leave it.
type Change struct{ Without, With []string }

// Changed returns the ring after a change.
func (r Ring) Changed(c Change) (Ring, error) {
	changed := r.with(slices.Clone(r.Shards))
	remove := func(name string) {
		changed.Shards = slices.DeleteFunc(changed.Shards, func(s Shard) bool { return s.Name == name })
	}
	for _, name := range c.Without {
		if !slices.Contains(changed.Members(), name) {
			return Ring{}, fmt.Errorf("shard %s is no member of ring %s, whose members are %q", name, r.Name,
				r.Members())
		}
		remove(name)
	}
	for _, with := range c.With {
		name, given, weighed := strings.Cut(with, "=")
		joins := Shard{Name: name, Weight: shardlease.DefaultWeight, state: shardstate.Ready}
		if weighed {
			var err error
			if joins.Weight, err = shardrecord.Weight(given); err != nil {
				return Ring{}, fmt.Errorf("weight of shard %s: %w", name, err)
			}
		}
		if slices.Contains(changed.Members(), name) {
			return Ring{}, fmt.Errorf("shard %s is a member of ring %s already", name, r.Name)
		}
		remove(name)
		changed.Shards = append(changed.Shards, joins)
	}
	return changed.with(changed.Shards), nil
}

// Summary is one line about a ring.
type Summary struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Members   int    `json:"members"`
	Ready     int    `json:"ready"`
	// Drained have weight 0, and are neither members nor others, unless all are drained.
	Drained int `json:"drained,omitempty"`
	// Idle are not members, because nothing in their processes works on objects.
	Idle   int `json:"idle,omitempty"`
	Others int `json:"others"` // Leases of shards that have ended, or are malformed
	// Sharder is the holder of the sharder's election, unless its Lease has expired.
	Sharder string `json:"sharder,omitempty"`
}

// Summary returns a line about the ring.
func (r Ring) Summary() Summary {
	members := r.Members()
	s := Summary{Namespace: r.Namespace, Name: r.Name, Members: len(members)}
	for _, shard := range r.Shards {
		member := slices.Contains(members, shard.Name)
		switch {
		case member && shard.State == "Ready":
			s.Ready++
		case shard.Idle && shard.state.Member():
			s.Idle++
		case !member && shard.state.Member():
			s.Drained++
		}
	}
	s.Others = len(r.Shards) - s.Members - s.Drained - s.Idle
	if r.Sharder != nil && r.Sharder.State == Held {
		s.Sharder = r.Sharder.Holder
	}
	return s
}
