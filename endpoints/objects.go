package endpoints

import (
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
	name := fmt.Sprintf("%s-%s-%016x", service, strings.ToLower(g.family), xxhash.Sum64String(g.ports.id()))
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
		ObjectMeta: newMeta(service, g.name(service.Name, n), map[string]string{
			discoveryv1.LabelServiceName: service.Name,
			discoveryv1.LabelManagedBy:   ManagedBy,
		}),
		AddressType: discoveryv1.AddressType(g.family),
	}
	for _, p := range g.ports {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{
			Name: ptr.To(p.Name), Port: ptr.To(p.Number), Protocol: ptr.To(p.Protocol), AppProtocol: p.appProtocol(),
		})
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

// appProtocol returns the hint for clients, or nil.
func (p Port) appProtocol() *string {
	if p.AppProtocol == "" {
		return nil
	}
	return &p.AppProtocol
}

// newMeta returns the metadata of an object of the Service. The garbage collector deletes it with the
// Service. Otherwise the next Service of that name would publish its addresses.
func newMeta(service *corev1.Service, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: service.Namespace, Name: name, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID},
		},
	}
}

// sameMeta reports whether an object has the labels and the owner of w. Others may have added more.
func sameMeta(s, w metav1.ObjectMeta) bool {
	for key, value := range w.Labels {
		if s.Labels[key] != value {
			return false
		}
	}
	return slices.ContainsFunc(s.OwnerReferences,
		func(o metav1.OwnerReference) bool { return o.UID == w.OwnerReferences[0].UID })
}

// overwriteMeta sets the labels and the owner of w.
func overwriteMeta(s *metav1.ObjectMeta, w metav1.ObjectMeta) {
	for key, value := range w.Labels {
		metav1.SetMetaDataLabel(s, key, value)
	}
	s.OwnerReferences = w.OwnerReferences
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

// sameSlice reports whether a slice needs no write. It ignores the order of endpoints, and metadata
// that others have added.
func sameSlice(s, w *discoveryv1.EndpointSlice) bool {
	return sameMeta(s.ObjectMeta, w.ObjectMeta) && apiequality.Semantic.DeepEqual(s.Ports, w.Ports) &&
		apiequality.Semantic.DeepEqual(sorted(s.Endpoints), sorted(w.Endpoints))
}

func sorted(endpoints []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	return slices.SortedFunc(slices.Values(endpoints),
		func(a, b discoveryv1.Endpoint) int { return slices.Compare(a.Addresses, b.Addresses) })
}

// overwritten returns the next version of a slice.
func overwritten(s, w *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	next := s.DeepCopy()
	overwriteMeta(&next.ObjectMeta, w.ObjectMeta)
	next.Ports, next.Endpoints = w.Ports, w.Endpoints
	return next
}

// legacyManagedBy is a label of our Endpoints object, with the value ManagedBy.
const legacyManagedBy = "endpoints.kubernetes.io/managed-by"

//nolint:staticcheck // Endpoints are deprecated, and published only if asked for
type legacyEndpoints = corev1.Endpoints

// newLegacy returns the Endpoints object that publishes these endpoints. A label keeps Kubernetes
// from mirroring it, which would publish all endpoints twice.
func newLegacy(service *corev1.Service, all []Endpoint) *legacyEndpoints {
	e := &legacyEndpoints{ObjectMeta: newMeta(service, service.Name,
		map[string]string{discoveryv1.LabelSkipMirror: "true", legacyManagedBy: ManagedBy})}
	room := maxEndpoints
	for _, g := range groups(all) {
		if len(g.addresses) > room {
			g.addresses = g.addresses[:room]
			metav1.SetMetaDataAnnotation(&e.ObjectMeta, corev1.EndpointsOverCapacity, "truncated")
		}
		if room -= len(g.addresses); len(g.addresses) > 0 {
			e.Subsets = append(e.Subsets, newSubset(g.ports, g.addresses))
		}
	}
	return e
}

//nolint:staticcheck // see legacyEndpoints
func newSubset(ports []Port, addresses []netip.Addr) corev1.EndpointSubset {
	var s corev1.EndpointSubset
	for _, p := range ports {
		s.Ports = append(s.Ports, corev1.EndpointPort{
			Name: p.Name, Port: p.Number, Protocol: p.Protocol, AppProtocol: p.appProtocol(),
		})
	}
	for _, a := range addresses {
		s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: a.String()})
	}
	return s
}

// sameLegacy reports whether an Endpoints object needs no write.
func sameLegacy(s, w *legacyEndpoints) bool {
	return sameMeta(s.ObjectMeta, w.ObjectMeta) &&
		s.Annotations[corev1.EndpointsOverCapacity] == w.Annotations[corev1.EndpointsOverCapacity] &&
		slices.Equal(subsetContents(s), subsetContents(w))
}

// subsetContents returns the content of an Endpoints object, sorted, regardless of the subsets that
// others may have distributed it over.
func subsetContents(e *legacyEndpoints) []string {
	var all []string
	for _, s := range e.Subsets {
		for _, p := range s.Ports {
			port := Port{p.Name, p.Port, p.Protocol, ptr.Deref(p.AppProtocol, "")}
			for _, a := range s.Addresses {
				all = append(all, fmt.Sprintf("%s %+v", a.IP, port))
			}
			for _, a := range s.NotReadyAddresses {
				all = append(all, fmt.Sprintf("not ready: %s %+v", a.IP, port))
			}
		}
	}
	slices.Sort(all)
	return all
}

// overwrittenLegacy returns the next version of an Endpoints object.
func overwrittenLegacy(s, w *legacyEndpoints) *legacyEndpoints {
	next := s.DeepCopy()
	overwriteMeta(&next.ObjectMeta, w.ObjectMeta)
	delete(next.Annotations, corev1.EndpointsOverCapacity)
	for key, value := range w.Annotations {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, key, value)
	}
	next.Subsets = w.Subsets
	return next
}
