package endpoints

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// ManagedBy is the value of the label endpointslice.kubernetes.io/managed-by on our EndpointSlices.
// Slices with another value belong to others.
const ManagedBy = "endpoints.bellwether.dev"

const (
	maxEndpoints = 1000 // of a slice, and of an Endpoints object
	maxPorts     = 100  // of a slice: more are possible, but untested with kube-proxy
)

// portSet is a sorted set of ports with different names.
type portSet []Port

// id identifies the content of a portSet.
func (s portSet) id() string {
	var b strings.Builder
	for _, p := range s {
		fmt.Fprintf(&b, "%q %d %s %q\n", p.Name, p.Number, p.Protocol, p.AppProtocol)
	}
	return b.String()
}

// group is a sorted list of addresses of one family that have the same ports.
type group struct {
	family    string
	ports     portSet
	addresses []netip.Addr
}

// name returns the name of the group's nth slice.
func (g group) name(service string, n int) string {
	var hash [8]byte
	sum := xxhash.Sum64String(g.ports.id())
	for i := range hash {
		hash[i] = byte(sum >> (56 - 8*i))
	}
	name := fmt.Sprintf("%s-%s-%s", service, strings.ToLower(g.family), hex.EncodeToString(hash[:]))
	if n > 0 {
		name += fmt.Sprintf("-%d", n)
	}
	return name
}

// groups distributes sorted endpoints over as few groups as there are families and port sets. Ports
// of one address with the same name, for example of two instances, go to different groups: a slice
// cannot have both.
func groups(all []Endpoint) []group {
	ports := map[netip.Addr][]Port{}
	for _, e := range all {
		ports[e.Address] = append(ports[e.Address], e.Port)
	}
	byID := map[string]*group{}
	for _, address := range slices.SortedFunc(maps.Keys(ports), netip.Addr.Compare) {
		family := Endpoint{Address: address}.family()
		for _, set := range portSets(ports[address]) {
			id := family + " " + set.id()
			if byID[id] == nil {
				byID[id] = &group{family: family, ports: set}
			}
			byID[id].addresses = append(byID[id].addresses, address)
		}
	}
	var gs []group
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		gs = append(gs, *byID[id])
	}
	return gs
}

// portSets splits the sorted ports of an address. A port without a name is alone, because an
// Endpoints object allows no other beside it.
func portSets(ports []Port) []portSet {
	var sets []portSet
	taken := []map[string]bool{}
next:
	for _, p := range ports {
		for i, names := range taken {
			if p.Name != "" && !names[p.Name] && !names[""] && len(sets[i]) < maxPorts {
				sets[i], names[p.Name] = append(sets[i], p), true
				continue next
			}
		}
		sets, taken = append(sets, portSet{p}), append(taken, map[string]bool{p.Name: true})
	}
	return sets
}

// sliceSet returns the slices that publish these endpoints, by name.
func sliceSet(service *corev1.Service, all []Endpoint) map[string]*discoveryv1.EndpointSlice {
	set := map[string]*discoveryv1.EndpointSlice{}
	for _, g := range groups(all) {
		n := 0
		for addresses := range slices.Chunk(g.addresses, maxEndpoints) {
			s := newSlice(service, g, addresses, n)
			set[s.Name] = s
			n++
		}
	}
	return set
}

func newSlice(service *corev1.Service, g group, addresses []netip.Addr, n int) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: g.name(service.Name, n),
			Labels: map[string]string{
				discoveryv1.LabelServiceName: service.Name,
				discoveryv1.LabelManagedBy:   ManagedBy,
			},
			OwnerReferences: []metav1.OwnerReference{ownedBy(service)},
		},
		AddressType: discoveryv1.AddressType(g.family),
	}
	for _, p := range g.ports {
		port := discoveryv1.EndpointPort{Name: ptr.To(p.Name), Port: ptr.To(p.Number), Protocol: ptr.To(p.Protocol)}
		if p.AppProtocol != "" {
			port.AppProtocol = ptr.To(p.AppProtocol)
		}
		s.Ports = append(s.Ports, port)
	}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{a.String()},
			Conditions: discoveryv1.EndpointConditions{
				Ready: ptr.To(true), Serving: ptr.To(true),
				Terminating: ptr.To(false),
			},
		})
	}
	return s
}

// ownedBy makes the garbage collector delete an object with the Service. Otherwise the next Service
// of that name would publish its addresses.
func ownedBy(service *corev1.Service) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID}
}

// endpointsOf returns the valid endpoints of slices.
func endpointsOf(all []*discoveryv1.EndpointSlice) []Endpoint {
	var published []Endpoint
	for _, s := range all {
		for _, e := range s.Endpoints {
			for _, text := range e.Addresses {
				address, err := netip.ParseAddr(text)
				if err != nil {
					continue
				}
				for _, p := range s.Ports {
					published = append(published, Endpoint{address, Port{
						ptr.Deref(p.Name, ""), ptr.Deref(p.Port, 0), ptr.Deref(p.Protocol, corev1.ProtocolTCP),
						ptr.Deref(p.AppProtocol, ""),
					}})
				}
			}
		}
	}
	return slices.DeleteFunc(published, func(e Endpoint) bool { return e.problem() != nil })
}

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

// sameSlice reports whether a slice needs no write. It ignores the order of endpoints, and metadata
// that others have added.
func sameSlice(s, w *discoveryv1.EndpointSlice) bool {
	for key, value := range w.Labels {
		if s.Labels[key] != value {
			return false
		}
	}
	return slices.ContainsFunc(s.OwnerReferences,
		func(o metav1.OwnerReference) bool { return o.UID == w.OwnerReferences[0].UID }) &&
		apiequality.Semantic.DeepEqual(s.Ports, w.Ports) &&
		apiequality.Semantic.DeepEqual(sorted(s.Endpoints), sorted(w.Endpoints))
}

func sorted(endpoints []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	return slices.SortedFunc(slices.Values(endpoints),
		func(a, b discoveryv1.Endpoint) int { return slices.Compare(a.Addresses, b.Addresses) })
}

// overwritten returns the next version of a slice.
func overwritten(s, w *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	next := s.DeepCopy()
	for key, value := range w.Labels {
		metav1.SetMetaDataLabel(&next.ObjectMeta, key, value)
	}
	next.OwnerReferences, next.Ports, next.Endpoints = w.OwnerReferences, w.Ports, w.Endpoints
	return next
}
