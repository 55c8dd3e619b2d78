package handover

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Versions has the version up to which each resource was written, or "" if that is unknown. A
// resource that it does not have was not written, unless it has [others].
type Versions map[string]string

// others stands for all resources that Versions do not have. Their versions are not known.
const others = "*"

// Unknown returns Versions in which nothing is known.
func Unknown() Versions { return Versions{others: ""} }

// unnoted are resources whose writes are not noted, because the guard lets Events pass and a holder
// renews its Lease.
var unnoted = map[schema.GroupResource]bool{
	{Resource: "events"}: true, {Group: "events.k8s.io", Resource: "events"}: true,
	{Group: "coordination.k8s.io", Resource: "leases"}: true,
}

// Of returns the version up to which a resource was written, empty if it was not. known is false if
// that is unknown.
func (v Versions) Of(resource schema.GroupResource) (version string, known bool) {
	if unnoted[resource] || resource.Resource == "" {
		return "", false
	}
	if version, listed := v[resource.String()]; listed {
		return version, version != ""
	}
	_, unknown := v[others]
	return "", !unknown
}

// Parse reads what String has written.
func Parse(s string) (Versions, error) {
	v := Versions{}
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		return nil, fmt.Errorf("versions of resources: %w", err)
	}
	if v == nil {
		return nil, fmt.Errorf("versions of resources: %s", s)
	}
	return v, nil
}

// String returns v as JSON, in the order of the resources.
func (v Versions) String() string {
	text, _ := json.Marshal(map[string]string(v)) // of strings: it cannot fail
	return string(text)
}
