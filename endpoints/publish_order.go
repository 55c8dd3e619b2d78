package endpoints

import (
	"cmp"
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// change is one write to a slice. before is nil for a creation, after for a deletion.
type change struct {
	before, after *discoveryv1.EndpointSlice
}

// changes returns the writes that replace the standing slices by wanted. Those that only add
// endpoints come first and those that remove them last. See coverage for the order that keeps an
// endpoint from being missing while it moves.
func changes(standing []*discoveryv1.EndpointSlice, wanted map[string]*discoveryv1.EndpointSlice) []change {
	var all []change
	kept := map[string]bool{}
	for _, s := range standing {
		w := wanted[s.Name]
		if w == nil || w.AddressType != s.AddressType {
			// the type is immutable: delete it, then create it after a conflict
			switch {
			case len(s.Finalizers) > 0 && len(s.Endpoints) > 0: // which may keep it, and clients would use it
				all = append(all, change{s, emptied(s)})
			case s.DeletionTimestamp == nil:
				all = append(all, change{s, nil})
			}
			continue
		}
		kept[s.Name] = true
		if !sameSlice(s, w) {
			all = append(all, change{s, overwritten(s, w)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !kept[name] {
			all = append(all, change{nil, wanted[name]})
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.loss(), b.loss()) })
	return all
}

// emptied returns a slice without its endpoints.
func emptied(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	next := s.DeepCopy()
	next.Endpoints = []discoveryv1.Endpoint{}
	return next
}

// loss ranks a change by what it removes: nothing, some endpoints, a slice.
func (c change) loss() int {
	switch {
	case c.before == nil:
		return 0
	case c.after == nil:
		return 2
	}
	after := map[Endpoint]bool{}
	for _, e := range endpointsOf([]*discoveryv1.EndpointSlice{c.after}) {
		after[e] = true
	}
	for _, e := range endpointsOf([]*discoveryv1.EndpointSlice{c.before}) {
		if !after[e] {
			return 1
		}
	}
	return 0
}

// destinationsOf returns those of a slice, or nil without one.
func destinationsOf(s *discoveryv1.EndpointSlice) []Endpoint {
	if s == nil {
		return nil
	}
	all := endpointsOf([]*discoveryv1.EndpointSlice{s})
	for i := range all {
		all[i] = all[i].destination()
	}
	return all
}

// coverage orders changes so that no wanted destination is missing between two of them, even if one of
// them fails.
type coverage struct {
	wanted  map[Endpoint]bool
	shown   map[Endpoint]int  // by how many slices
	awaited map[Endpoint]bool // those that a failed change would have shown
}

func newCoverage(standing []*discoveryv1.EndpointSlice, wanted map[string]*discoveryv1.EndpointSlice) *coverage {
	c := &coverage{map[Endpoint]bool{}, map[Endpoint]int{}, map[Endpoint]bool{}}
	for _, s := range wanted {
		for _, d := range destinationsOf(s) {
			c.wanted[d] = true
		}
	}
	for _, s := range standing {
		c.add(s, 1)
	}
	return c
}

func (c *coverage) add(s *discoveryv1.EndpointSlice, n int) {
	for _, d := range destinationsOf(s) {
		c.shown[d] += n
	}
}

// next returns the index of the change that comes first: one that hides nothing that is wanted. If no
// change qualifies, two slices may swap destinations, and one of them has to come first. If all that are
// left hide what a failed change would have shown, next returns -1.
func (c *coverage) next(left []change) int {
	if i := slices.IndexFunc(left, func(v change) bool { return len(c.hidden(v)) == 0 }); i >= 0 {
		return i
	}
	return slices.IndexFunc(left, func(v change) bool {
		return !slices.ContainsFunc(c.hidden(v), func(d Endpoint) bool { return c.awaited[d] })
	})
}

// hidden returns the wanted destinations that no slice shows after a change.
func (c *coverage) hidden(v change) (all []Endpoint) {
	c.done(v)
	for _, d := range destinationsOf(v.before) {
		if c.wanted[d] && c.shown[d] <= 0 {
			all = append(all, d)
		}
	}
	c.done(change{v.after, v.before})
	return all
}

// done records that a change was made.
func (c *coverage) done(v change) {
	c.add(v.before, -1)
	c.add(v.after, 1)
}

// failed records that a change was not made, or may not have been.
func (c *coverage) failed(v change) {
	for _, d := range destinationsOf(v.after) {
		c.awaited[d] = true
	}
}
