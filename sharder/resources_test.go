package sharder

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestBadResourcesAreRefused(t *testing.T) {
	other := widgets
	other.Version = "v2"
	for want, resources := range map[string][]Resource{
		"Resources: must name at least one":              nil,
		"Resources[0].GVR: must have a version":          {{}},
		"Resources[1].GVR: must have a version":          {{GVR: configMaps}, {GVR: schema.GroupVersionResource{Resource: "x"}}},
		"Resources[1].GVR: must not occur twice":         {{GVR: widgets}, {GVR: other}},
		"Resources[0].Selector: must not mention":        {{GVR: configMaps, Selector: selectorOf(t, "!"+ShardLabel("r"))}},
		"Resources[0].Selector: must be able":            {{GVR: configMaps, Selector: labels.Nothing()}},
		"Resources[0].Namespaces: must not occur twice":  {{GVR: configMaps, Namespaces: []string{"a", "a"}}},
		"Resources[0].Namespaces: must not contain dots": {{GVR: configMaps, Namespaces: []string{"a.b"}}},
		"Resources[0].Children: must have a version":     {{GVR: configMaps, Children: []schema.GroupVersionResource{{Resource: "pods"}}}},
		"Resources[0].Children: must not occur twice":    {{GVR: configMaps, Children: []schema.GroupVersionResource{widgets, other}}},
		"Resources[0].Children: must not be a resource":  {{GVR: configMaps, Children: []schema.GroupVersionResource{other}}, {GVR: widgets}},
		"Resources[1].Children: must be of the same":     {{GVR: configMaps, Children: []schema.GroupVersionResource{widgets}}, {GVR: nodes, Children: []schema.GroupVersionResource{other}}},
	} {
		assert.ErrorContains(t, errors.Join(validateResources(resources, namesOf("r"))...), want)
	}
	assert.Empty(t, validateResources([]Resource{{GVR: configMaps, Selector: selectorOf(t, "a=b"), Namespaces: []string{"a", "b"}}, {GVR: widgets}}, namesOf("r")))
	assert.Empty(t, validateResources([]Resource{{GVR: configMaps, Selector: selectorOf(t, ShardLabel("other"))}}, namesOf("r")))
}

func TestResourcesAreLookedUp(t *testing.T) {
	resolved, _, err := resolve(testMapper(), []Resource{{GVR: configMaps, Namespaces: []string{"a", "b"}}, {GVR: nodes}})
	require.NoError(t, err)
	assert.Equal(t, schema.GroupKind{Kind: "ConfigMap"}, resolved[0].kind)
	assert.True(t, resolved[0].namespaced)
	assert.Equal(t, []string{"a", "b"}, resolved[0].namespaces())
	assert.False(t, resolved[1].namespaced)
	assert.Equal(t, []string{""}, resolved[1].namespaces())
	assert.True(t, resolved[1].Selector.Empty())
	assert.NotNil(t, resolved[1].Key)
}

func TestChildrenAreLookedUp(t *testing.T) {
	children := []schema.GroupVersionResource{pods}
	resolved, _, err := resolve(testMapper(), []Resource{{GVR: configMaps, Namespaces: []string{"a"}, Children: children}, {GVR: nodes, Children: children}})
	require.NoError(t, err)
	for i, namespaces := range [][]string{{"a"}, {""}} {
		child := resolved[i].children[0]
		assert.Equal(t, schema.GroupKind{Kind: "Pod"}, child.kind)
		assert.True(t, child.namespaced)
		assert.Equal(t, namespaces, child.namespaces())
	}
	_, _, err = resolve(testMapper(), []Resource{{GVR: configMaps, Children: []schema.GroupVersionResource{nodes}}})
	assert.ErrorContains(t, err, "Resources[0].Children: must be in namespaces, as the objects that control them are: nodes have none, configmaps have")
	absent := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
	_, err, _ = resolve(testMapper(), []Resource{{GVR: configMaps, Children: []schema.GroupVersionResource{absent}}})
	assert.ErrorContains(t, err, "Resources[0].Children: must be served by the API server: example.com/v1, Resource=gadgets is not")
}

func TestResourcesThatTheServerDoesNotHaveAreNamed(t *testing.T) {
	absent := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
	known, unknown, err := resolve(testMapper(), []Resource{{GVR: configMaps}, {GVR: absent}, {GVR: nodes, Namespaces: []string{"a"}}})
	assert.Len(t, known, 1)
	assert.ErrorContains(t, unknown, "Resources[1].GVR: must be served by the API server: example.com/v1, Resource=gadgets is not, is its CustomResourceDefinition installed?")
	assert.ErrorContains(t, err, "Resources[2].Namespaces: must be empty for a cluster-scoped resource: nodes is")
}
