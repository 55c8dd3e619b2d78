package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RequestError returns err with the verb and the object of the failed request. If [RoleMissing], it
// also names the verb to grant.
func RequestError(verb string, object any, resource schema.GroupResource, err error) error {
	if !RoleMissing(err) {
		return fmt.Errorf("%s %v: %w", verb, object, err)
	}
	return fmt.Errorf("not allowed to %s %v: grant the verb %q on resource %s of API group %q: %w",
		verb, object, verb, resource.Resource, resource.Group, err)
}
