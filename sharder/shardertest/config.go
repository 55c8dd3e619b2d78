package shardertest

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// Config configures a [Ring].
type Config struct {
	// Scheme has the Go types of your custom resources and their lists. The kinds of Kubernetes
	// itself need no Scheme.
	Scheme *runtime.Scheme

	// Kinds are custom resources without a Go type, which are unstructured.
	Kinds []schema.GroupVersionKind

	// Resources are those of the ring, the same as in the program. Required.
	Resources []api.Resource

	// Mapper is needed only if the plural of a kind cannot be guessed, or if a custom resource is
	// cluster-scoped. Default: a mapper with all kinds, in which yours are namespaced.
	Mapper meta.RESTMapper
}

// kinds returns a scheme with all kinds of the configuration, and of Kubernetes.
func (c Config) kinds() *runtime.Scheme {
	all := runtime.NewScheme()
	add := func(kind schema.GroupVersionKind, example runtime.Object) {
		if !all.Recognizes(kind) {
			all.AddKnownTypeWithName(kind, example)
		}
	}
	for _, kind := range c.Kinds {
		add(kind, &unstructured.Unstructured{})
		kind.Kind += "List"
		add(kind, &unstructured.UnstructuredList{})
	}
	byName := func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }
	for _, scheme := range []*runtime.Scheme{c.Scheme, kubernetesscheme.Scheme} {
		if scheme == nil {
			continue
		}
		for _, kind := range slices.SortedFunc(maps.Keys(scheme.AllKnownTypes()), byName) {
			if example, err := scheme.New(kind); err == nil {
				add(kind, example)
			}
		}
		for _, version := range scheme.PreferredVersionAllGroups() {
			_ = all.SetVersionPriority(scheme.PrioritizedVersionsForGroup(version.Group)...) // a mere preference
		}
	}
	return all
}

func (c Config) mapper(kinds *runtime.Scheme) meta.RESTMapper {
	if c.Mapper != nil {
		return c.Mapper
	}
	return testrestmapper.TestOnlyStaticRESTMapper(kinds)
}

// typed reports whether objects of a kind have a Go type.
func typed(kinds *runtime.Scheme, kind schema.GroupVersionKind) bool {
	known := kinds.AllKnownTypes()[kind]
	return known != nil && known != reflect.TypeFor[unstructured.Unstructured]()
}
