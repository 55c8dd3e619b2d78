package endpoints

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// destination is where clients of a Service connect to. Endpoints that differ only in the names of
// their ports are one.
type destination struct {
	address  netip.Addr
	number   int32
	protocol corev1.Protocol
}

func destinationOf(e Endpoint) destination {
	return destination{e.Address, e.Port.Number, e.Port.Protocol}
}

func destinationsOf(s *discoveryv1.EndpointSlice) []destination {
	if s == nil {
		return nil
	}
	var all []destination
	for _, e := range endpointsOf([]*discoveryv1.EndpointSlice{s}) {
		all = append(all, destinationOf(e))
	}
	return all
}

// coverage orders changes so that no wanted destination is missing between two of them, even if one of
// them fails.
type coverage struct {
	wanted  map[destination]bool
	shown   map[destination]int  // by how many slices
	awaited map[destination]bool // those that a failed change would have shown
}

func newCoverage(standing []*discoveryv1.EndpointSlice, wanted map[string]*discoveryv1.EndpointSlice) *coverage {
	c := &coverage{map[destination]bool{}, map[destination]int{}, map[destination]bool{}}
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
		return !slices.ContainsFunc(c.hidden(v), func(d destination) bool { return c.awaited[d] })
	})
}

// hidden returns the wanted destinations that no slice shows after a change.
func (c *coverage) hidden(v change) (all []destination) {
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
