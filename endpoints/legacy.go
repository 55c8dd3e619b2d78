package endpoints

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// legacyManagedBy is a label of our Endpoints object, with the value ManagedBy.
const legacyManagedBy = "endpoints.kubernetes.io/managed-by"

//nolint:staticcheck // Endpoints are deprecated, and published only if asked for
type legacyEndpoints = corev1.Endpoints

// newLegacy returns the Endpoints object that publishes these endpoints. A label keeps Kubernetes
// from mirroring it, which would publish all endpoints twice.
func newLegacy(service *corev1.Service, all []Endpoint) *legacyEndpoints {
	e := &legacyEndpoints{ObjectMeta: metav1.ObjectMeta{
		Namespace: service.Namespace, Name: service.Name,
		Labels:          map[string]string{discoveryv1.LabelSkipMirror: "true", legacyManagedBy: ManagedBy},
		OwnerReferences: []metav1.OwnerReference{ownedBy(service)},
	}}
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
		port := corev1.EndpointPort{Name: p.Name, Port: p.Number, Protocol: p.Protocol}
		if p.AppProtocol != "" {
			port.AppProtocol = ptr.To(p.AppProtocol)
		}
		s.Ports = append(s.Ports, port)
	}
	for _, a := range addresses {
		s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: a.String()})
	}
	return s
}

// sameLegacy reports whether an Endpoints object needs no write.
func sameLegacy(s, w *legacyEndpoints) bool {
	for key, value := range w.Labels {
		if s.Labels[key] != value {
			return false
		}
	}
	return s.Annotations[corev1.EndpointsOverCapacity] == w.Annotations[corev1.EndpointsOverCapacity] &&
		slices.ContainsFunc(s.OwnerReferences,
			func(o metav1.OwnerReference) bool { return o.UID == w.OwnerReferences[0].UID }) &&
		apiequality.Semantic.DeepEqual(subsetContents(s), subsetContents(w))
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
	for key, value := range w.Labels {
		metav1.SetMetaDataLabel(&next.ObjectMeta, key, value)
	}
	delete(next.Annotations, corev1.EndpointsOverCapacity)
	for key, value := range w.Annotations {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, key, value)
	}
	next.OwnerReferences, next.Subsets = w.OwnerReferences, w.Subsets
	return next
}
