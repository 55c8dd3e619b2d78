package protocol

import (
	"errors"
	"testing"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/restmapper"
	clienttesting "k8s.io/client-go/testing"
)

func TestBadResourcesAreRefused(t *testing.T) {
	other := ringtest.Widgets
	other.Version = "v2"
	for want, resources := range map[string][]api.Resource{
		"Resources: must name at least one":     nil,
		"Resources[0].GVR: must have a version": {{}},
		"Resources[1].GVR: must have a version": {
			{GVR: ringtest.ConfigMaps}, {GVR: schema.GroupVersionResource{Resource: "x"}},
		},
		"Resources[1].GVR: must not occur twice": {{GVR: ringtest.Widgets}, {GVR: other}},
		"Resources[0].Selector: must not mention": {
			{GVR: ringtest.ConfigMaps, Selector: ringtest.SelectorOf(t, "!"+api.ShardLabel("r"))},
		},
		"Resources[0].Selector: must be able":            {{GVR: ringtest.ConfigMaps, Selector: labels.Nothing()}},
		"Resources[0].Namespaces: must not occur twice":  {{GVR: ringtest.ConfigMaps, Namespaces: []string{"a", "a"}}},
		"Resources[0].Namespaces: must not contain dots": {{GVR: ringtest.ConfigMaps, Namespaces: []string{"a.b"}}},
		"Resources[0].Children: must have a version": {
			{GVR: ringtest.ConfigMaps, Children: []schema.GroupVersionResource{{Resource: "pods"}}},
		},
		"Resources[0].Children: must not occur twice": {
			{GVR: ringtest.ConfigMaps, Children: []schema.GroupVersionResource{ringtest.Widgets, other}},
		},
		"Resources[0].Children: must not be a resource": {
			{GVR: ringtest.ConfigMaps, Children: []schema.GroupVersionResource{other}}, {GVR: ringtest.Widgets},
		},
		"Resources[1].Children: must be of the same": {
			{GVR: ringtest.ConfigMaps, Children: []schema.GroupVersionResource{ringtest.Widgets}},
			{GVR: ringtest.Nodes, Children: []schema.GroupVersionResource{other}},
		},
	} {
		assert.ErrorContains(t, errors.Join(ValidateResources(resources, KeysOf("r"))...), want)
	}
	assert.Empty(
		t,
		ValidateResources(
			[]api.Resource{
				{GVR: ringtest.ConfigMaps, Selector: ringtest.SelectorOf(t, "a=b"), Namespaces: []string{"a", "b"}},
				{GVR: ringtest.Widgets},
			},
			KeysOf("r"),
		),
	)
	assert.Empty(
		t,
		ValidateResources(
			[]api.Resource{{GVR: ringtest.ConfigMaps, Selector: ringtest.SelectorOf(t, api.ShardLabel("other"))}},
			KeysOf("r"),
		),
	)
}

func TestResourcesAreLookedUp(t *testing.T) {
	resolved, _, err := Resolve(
		ringtest.TestMapper(),
		[]api.Resource{{GVR: ringtest.ConfigMaps, Namespaces: []string{"a", "b"}}, {GVR: ringtest.Nodes}},
	)
	require.NoError(t, err)
	assert.Equal(t, schema.GroupKind{Kind: "ConfigMap"}, resolved[0].Kind)
	assert.True(t, resolved[0].Namespaced)
	assert.Equal(t, []string{"a", "b"}, resolved[0].WatchedNamespaces())
	assert.False(t, resolved[1].Namespaced)
	assert.Equal(t, []string{""}, resolved[1].WatchedNamespaces())
	assert.True(t, resolved[1].Selector.Empty())
	assert.NotNil(t, resolved[1].Key)
}

func TestChildrenAreLookedUp(t *testing.T) {
	children := []schema.GroupVersionResource{ringtest.Pods}
	resolved, _, err := Resolve(
		ringtest.TestMapper(),
		[]api.Resource{
			{GVR: ringtest.ConfigMaps, Namespaces: []string{"a"}, Children: children},
			{GVR: ringtest.Nodes, Children: children},
		},
	)
	require.NoError(t, err)
	for i, namespaces := range [][]string{{"a"}, {""}} {
		child := resolved[i].childResources[0]
		assert.Equal(t, schema.GroupKind{Kind: "Pod"}, child.Kind)
		assert.True(t, child.Namespaced)
		assert.Equal(t, namespaces, child.WatchedNamespaces())
	}
	_, _, err = Resolve(
		ringtest.TestMapper(),
		[]api.Resource{{GVR: ringtest.ConfigMaps, Children: []schema.GroupVersionResource{ringtest.Nodes}}},
	)
	assert.ErrorContains(t, err, "Resources[0].Children: must be in namespaces, "+
		"as the objects that control them are: nodes have none, configmaps have")
	absent := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
	_, err, _ = Resolve(
		ringtest.TestMapper(),
		[]api.Resource{{GVR: ringtest.ConfigMaps, Children: []schema.GroupVersionResource{absent}}},
	)
	assert.ErrorContains(
		t, err, "Resources[0].Children: must be served by the API server: example.com/v1, Resource=gadgets is not",
	)
}

// The mapper of a replica remembers what the API server has served.
func TestAResourceThatIsInstalledLaterIsLearned(t *testing.T) {
	served := &clienttesting.Fake{}
	discovery := &fake.FakeDiscovery{Fake: served}
	serve := func(group, resource, kind string) {
		served.Resources = append(served.Resources, &metav1.APIResourceList{
			GroupVersion: group, APIResources: []metav1.APIResource{{Name: resource, Kind: kind, Namespaced: true}},
		})
	}
	serve("v1", "configmaps", "ConfigMap")
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery))
	both := []api.Resource{{GVR: ringtest.ConfigMaps}, {GVR: ringtest.Widgets}}
	known, unknown, err := Resolve(mapper, both)
	require.NoError(t, err)
	require.Error(t, unknown)
	assert.Len(t, known, 1)
	serve("example.com/v1", "widgets", "Widget")
	known, unknown, err = Resolve(mapper, both)
	require.NoError(t, err)
	require.NoError(t, unknown)
	assert.Len(t, known, 2)
}

func TestResourcesThatTheServerDoesNotHaveAreNamed(t *testing.T) {
	absent := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
	known, unknown, err := Resolve(
		ringtest.TestMapper(),
		[]api.Resource{{GVR: ringtest.ConfigMaps}, {GVR: absent}, {GVR: ringtest.Nodes, Namespaces: []string{"a"}}},
	)
	assert.Len(t, known, 1)
	assert.ErrorContains(t, unknown, "Resources[1].GVR: must be served by the API server: "+
		"example.com/v1, Resource=gadgets is not, "+
		"is its CustomResourceDefinition installed?")
	assert.ErrorContains(t, err, "Resources[2].Namespaces: must be empty for a cluster-scoped resource: nodes is")
}

// A resource may have the children of several resources of roots. The sharder watches it once, in
// the namespaces of all those roots.
func TestNamespacesOfChildrenAreThoseOfAllTheirRoots(t *testing.T) {
	children := []schema.GroupVersionResource{ringtest.Pods}
	for name, test := range map[string]struct{ first, second, want []string }{
		"some and others": {[]string{"b", "a"}, []string{"c", "b"}, []string{"a", "b", "c"}},
		"some and all":    {[]string{"a"}, nil, nil},
		"all and some":    {nil, []string{"a"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			resolved, _, err := Resolve(ringtest.TestMapper(), []api.Resource{
				{GVR: ringtest.ConfigMaps, Namespaces: test.first, Children: children},
				{GVR: ringtest.Widgets, Namespaces: test.second, Children: children},
			})
			require.NoError(t, err)
			graph := ResourceGraphOf(resolved)
			require.Len(t, graph.All, 3)
			assert.Equal(t, [][]int{{2}, {2}}, graph.ChildResources)
			assert.Equal(t, test.want, graph.All[2].Namespaces)
			assert.Equal(t, test.first, resolved[0].Namespaces, "the roots' are as they were")
		})
	}
}
