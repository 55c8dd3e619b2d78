package view

import (
	"cmp"
	"fmt"
	"slices"
	"time"
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
	return r
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

// Members returns the sorted names of the shards among which objects are distributed: those that
// are not drained, unless all are, and not idle.
func (r Ring) Members() []string {
	names, drained := []string{}, []string{}
	for _, s := range r.Shards {
		switch {
		case !s.state.Member(), s.Idle:
		case s.Drained:
			drained = append(drained, s.Name)
		default:
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return drained
	}
	return names
}

// MembersBesides returns the members except one.
func (r Ring) MembersBesides(shard string) []string {
	return slices.DeleteFunc(r.Members(), func(name string) bool { return name == shard })
}

// DrainObstacle returns why a shard must not be drained, or "" if it may.
func (r Ring) DrainObstacle(shard string) string {
	switch s := r.Shard(shard); {
	case s == nil:
		return fmt.Sprintf("ring %s has no shard %s", r.Name, shard)
	case s.Drained:
		return fmt.Sprintf("shard %s is drained already. --undo takes that back", shard)
	case !s.state.Member():
		return fmt.Sprintf("shard %s is %s, and gets no objects", shard, s.State)
	case len(r.MembersBesides(shard)) == 0:
		return "no other shard could get its objects"
	}
	return ""
}

// Summary is one line about a ring.
type Summary struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Members   int    `json:"members"`
	Ready     int    `json:"ready"`
	// Drained are neither members nor others, unless all are.
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
