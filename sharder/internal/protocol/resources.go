package protocol

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Resource is an [api.Resource] with its defaults and what the API server reports about it.
type Resource struct {
	api.Resource
	Kind           schema.GroupKind
	Namespaced     bool
	childResources []Resource // these have no children
}

// WatchedNamespaces returns the namespaces to list and watch, one by one. The empty one stands for
// all.
func (r Resource) WatchedNamespaces() []string {
	if len(r.Namespaces) == 0 {
		return []string{""}
	}
	return r.Namespaces
}

// WatchedNamespace returns the one of WatchedNamespaces that covers a namespace.
func (r Resource) WatchedNamespace(namespace string) string {
	if len(r.Namespaces) == 0 {
		return ""
	}
	return namespace
}

// ValidateResources returns the rules that resources break by themselves.
func ValidateResources(resources []api.Resource, n Keys) []error {
	if len(resources) == 0 {
		return []error{errors.New("sharder: Resources: must name at least one")}
	}
	var errs []error
	seen := map[schema.GroupResource]bool{}
	versions := map[schema.GroupResource]string{} // of children
	const incomplete = "must have a version and a resource, which is the plural in lower case"
	for i, r := range resources {
		bad := func(field, rule string, got any) {
			errs = append(errs, fmt.Errorf("sharder: Resources[%d].%s: %s (got %v)", i, field, rule, got))
		}
		switch gr := r.GVR.GroupResource(); {
		case r.GVR.Version == "" || r.GVR.Resource == "":
			bad("GVR", incomplete, fmt.Sprintf("%q", r.GVR.String()))
		case seen[gr]: // even in another version: the objects are the same
			bad("GVR", "must not occur twice", gr)
		default:
			seen[gr] = true
			for _, problem := range validation.IsQualifiedName(n.Of(gr).Record) {
				bad("GVR", "must fit into the name of an annotation: "+problem, fmt.Sprintf("%q", n.Of(gr).Record))
			}
		}
		if r.Selector != nil {
			requirements, selectable := r.Selector.Requirements()
			if !selectable {
				bad("Selector", "must be able to select something", fmt.Sprintf("%q", r.Selector))
			}
			for _, requirement := range requirements {
				if key := requirement.Key(); key == n.Shard || key == n.Drain || key == n.Seal {
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
		for k, child := range r.Children {
			gr := child.GroupResource()
			switch version, known := versions[gr]; {
			case child.Version == "" || child.Resource == "":
				bad("Children", incomplete, fmt.Sprintf("%q", child.String()))
			case slices.ContainsFunc(r.Children[:k],
				func(other schema.GroupVersionResource) bool { return other.GroupResource() == gr }):
				bad("Children", "must not occur twice", gr)
			case slices.ContainsFunc(resources,
				func(other api.Resource) bool { return other.GVR.GroupResource() == gr }):
				bad("Children", "must not be a resource of the ring itself, whose objects have places of their own", gr)
			case known && version != child.Version:
				bad("Children", "must be of the same version in all Resources", child)
			default:
				versions[gr] = child.Version
			}
		}
	}
	return errs
}

// Resolve asks the API server, through mapper, what the resources are. unknown names those that it
// does not have, or whose children it does not have, and known leaves them out. err states what is
// wrong with others.
func Resolve(mapper meta.RESTMapper, resources []api.Resource) (known []Resource, unknown, err error) {
	var missing, errs []error
	for i, r := range resources {
		kind, namespaced, err := LookUp(mapper, r.GVR)
		if err != nil {
			missing = append(missing, MappingError(i, "GVR", r.GVR, err))
			continue
		}
		if !namespaced && len(r.Namespaces) > 0 {
			errs = append(errs, fmt.Errorf("sharder: Resources[%d].Namespaces: %w: %s is (got %q)", i, ErrScope,
				r.GVR.GroupResource(), r.Namespaces))
			continue
		}
		if r.Selector == nil {
			r.Selector = labels.Everything()
		}
		if r.Key == nil {
			r.Key = api.ObjectKey
		}
		root, complete := Resource{Resource: r, Kind: kind, Namespaced: namespaced}, true
		for _, gvr := range r.Children {
			kind, inNamespaces, err := LookUp(mapper, gvr)
			switch {
			case err != nil:
				missing, complete = append(missing, MappingError(i, "Children", gvr, err)), false
			case namespaced && !inNamespaces:
				errs = append(errs, fmt.Errorf("sharder: Resources[%d].Children: %w: %s have none, %s have", i,
					ErrDescent, gvr.GroupResource(), r.GVR.GroupResource()))
			default:
				root.childResources = append(root.childResources, Resource{
					Resource:   api.Resource{GVR: gvr, Selector: labels.Everything(), Namespaces: r.Namespaces},
					Kind:       kind,
					Namespaced: inNamespaces,
				})
			}
		}
		if complete {
			known = append(known, root)
		}
	}
	return known, errors.Join(missing...), errors.Join(errs...)
}

// LookUp asks the API server, through mapper, for the kind of a resource, and whether it is
// namespaced. A mapper that lacks the resource, and can be reset, may have asked before the
// resource was installed.
func LookUp(
	mapper meta.RESTMapper, gvr schema.GroupVersionResource,
) (kind schema.GroupKind, namespaced bool, err error) {
	ask := func() error {
		found, err := mapper.KindFor(gvr)
		if err != nil {
			return err
		}
		mapping, err := mapper.RESTMapping(found.GroupKind(), gvr.Version)
		if err != nil {
			return err
		}
		kind, namespaced = found.GroupKind(), mapping.Scope.Name() == meta.RESTScopeNameNamespace
		return nil
	}
	err = ask()
	if remembers, ok := mapper.(meta.ResettableRESTMapper); ok && meta.IsNoMatchError(err) {
		remembers.Reset()
		err = ask()
	}
	return kind, namespaced, err
}

// What can be wrong with the scope of a resource.
var (
	ErrScope   = errors.New("must be empty for a cluster-scoped resource")
	ErrDescent = errors.New("must be in namespaces, as the objects that control them are")
)

// MappingError returns the error for a resource that the API server does not serve, or that could
// not be looked up.
func MappingError(i int, field string, gvr schema.GroupVersionResource, err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("sharder: Resources[%d].%s: must be served by the API server: %s is not, "+
			"is its CustomResourceDefinition installed? %w", i, field, gvr.String(), err)
	}
	return fmt.Errorf("sharder: Resources[%d].%s: ask for %s: %w", i, field, gvr.String(), err)
}
