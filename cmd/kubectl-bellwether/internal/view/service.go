package view

import (
	"cmp"
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

const (
	// serviceLabel marks the Leases of instances, which are no elections.
	serviceLabel = "endpoints.bellwether.dev/service"

	// SliceSelector selects the EndpointSlices of package endpoints.
	SliceSelector = discoveryv1.LabelManagedBy + "=" + endpoints.ManagedBy
)

// Service is a Service whose instances publish themselves.
type Service struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"` // of instances that are published, sorted
	Ports     []string `json:"ports"`
}

// ServicesOf returns the Services of EndpointSlices.
func ServicesOf(slicesOfAll []discoveryv1.EndpointSlice) []Service {
	type name struct{ namespace, service string }
	found := map[name]*Service{}
	for _, s := range slicesOfAll {
		at := name{s.Namespace, s.Labels[discoveryv1.LabelServiceName]}
		v := found[at]
		if v == nil {
			v = &Service{Namespace: at.namespace, Name: at.service, Addresses: []string{}, Ports: []string{}}
			found[at] = v
		}
		for _, e := range s.Endpoints {
			if ptr.Deref(e.Conditions.Ready, true) {
				v.Addresses = append(v.Addresses, e.Addresses...)
			}
		}
		for _, p := range s.Ports {
			v.Ports = append(v.Ports, fmt.Sprintf("%d/%s", ptr.Deref(p.Port, 0), ptr.Deref(p.Protocol, "TCP")))
		}
	}
	all := []Service{}
	for _, v := range found {
		slices.Sort(v.Addresses)
		slices.Sort(v.Ports)
		v.Addresses, v.Ports = slices.Compact(v.Addresses), slices.Compact(v.Ports)
		all = append(all, *v)
	}
	slices.SortFunc(all, func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}
