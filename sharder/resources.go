package sharder

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Resource is a kind of objects that a ring distributes. Sharder and shards of a ring are given the same ones.
type Resource struct {
	// GVR names the resource, for example {Version: "v1", Resource: "configmaps"}. Required. Which version is taken does not
	// matter, because only metadata is read.
	GVR schema.GroupVersionResource
	// Selector restricts the ring to some objects by their labels. Nil: all of them. An object that ceases to be selected
	// keeps its owner, and is moved by nobody until it is selected again. It must not mention the ring's own labels.
	Selector labels.Selector
	// Namespaces restricts the ring to some namespaces, with one watch each. Empty: all of them. Cluster-scoped resources
	// have none.
	Namespaces []string
	// Key is what an object's place on the ring follows from. Nil: [ObjectKey].
	Key KeyFunc
}

// resource is a [Resource] with its defaults, and what the API server says about it.
type resource struct {
	Resource
	kind       schema.GroupKind
	namespaced bool
}

// namespaces to list and to watch, one by one; the empty one stands for all.
func (r resource) namespaces() []string {
	if len(r.Namespaces) == 0 {
		return []string{""}
	}
	return r.Namespaces
}

// validateResources returns the rules that resources break by themselves.
func validateResources(resources []Resource, n names) []error {
	if len(resources) == 0 {
		return []error{errors.New("sharder: Resources: must name at least one")}
	}
	var errs []error
	seen := map[schema.GroupResource]bool{}
	for i, r := range resources {
		bad := func(field, rule string, got any) {
			errs = append(errs, fmt.Errorf("sharder: Resources[%d].%s: %s (got %v)", i, field, rule, got))
		}
		switch gr := r.GVR.GroupResource(); {
		case r.GVR.Version == "" || r.GVR.Resource == "":
			bad("GVR", "must have a version and a resource, which is the plural in lower case", fmt.Sprintf("%q", r.GVR.String()))
		case seen[gr]: // in two versions too: the objects are the same
			bad("GVR", "must not occur twice", gr)
		default:
			seen[gr] = true
		}
		if r.Selector != nil {
			requirements, selectable := r.Selector.Requirements()
			if !selectable {
				bad("Selector", "must be able to select something", fmt.Sprintf("%q", r.Selector))
			}
			for _, requirement := range requirements {
				if key := requirement.Key(); key == n.shard || key == n.drain {
					bad("Selector", "must not mention a label of the ring itself", fmt.Sprintf("%q", r.Selector))
				}
			}
		}
		twice := map[string]bool{}
		for _, ns := range r.Namespaces {
			for _, problem := range validation.IsDNS1123Label(ns) {
				bad("Namespaces", problem, fmt.Sprintf("%q", ns))
			}
			if twice[ns] {
				bad("Namespaces", "must not occur twice", fmt.Sprintf("%q", ns))
			}
			twice[ns] = true
		}
	}
	return errs
}

// resolve asks the API server, by way of mapper, what resources are. An error says which one it does not know.
func resolve(mapper meta.RESTMapper, resources []Resource) ([]resource, error) {
	var errs []error
	resolved := make([]resource, 0, len(resources))
	for i, r := range resources {
		kind, err := mapper.KindFor(r.GVR)
		if err != nil {
			errs = append(errs, mappingError(i, r, err))
			continue
		}
		mapping, err := mapper.RESTMapping(kind.GroupKind(), r.GVR.Version)
		if err != nil {
			errs = append(errs, mappingError(i, r, err))
			continue
		}
		namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
		if !namespaced && len(r.Namespaces) > 0 {
			errs = append(errs, fmt.Errorf("sharder: Resources[%d].Namespaces: %w: %s is (got %q)", i, errScope, r.GVR.GroupResource(), r.Namespaces))
			continue
		}
		if r.Selector == nil {
			r.Selector = labels.Everything()
		}
		if r.Key == nil {
			r.Key = ObjectKey
		}
		resolved = append(resolved, resource{Resource: r, kind: kind.GroupKind(), namespaced: namespaced})
	}
	return resolved, errors.Join(errs...)
}

var errScope = errors.New("must be empty for a cluster-scoped resource")

func mappingError(i int, r Resource, err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("sharder: Resources[%d].GVR: must be served by the API server: %s is not, is its CustomResourceDefinition installed? %w", i, r.GVR.String(), err)
	}
	return fmt.Errorf("sharder: Resources[%d].GVR: ask for %s: %w", i, r.GVR.String(), err)
}
