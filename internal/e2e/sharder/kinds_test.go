package sharder_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// customGroup is the API group of the custom resources that install installs.
const customGroup = "e2e.bellwether.dev"

var (
	ingressClasses = kind{Resource: schema.GroupVersionResource{
		Group: "networking.k8s.io", Version: "v1",
		Resource: "ingressclasses",
	}, Kind: "IngressClass"}
	widgets = kind{
		Resource: schema.GroupVersionResource{Group: customGroup, Version: "v1", Resource: "widgets"},
		Kind:     "Widget", namespaced: true,
	}
	planets = kind{
		Resource: schema.GroupVersionResource{Group: customGroup, Version: "v1", Resource: "planets"},
		Kind:     "Planet",
	}
)

func TestAllKindsOfObjects(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		install(t, widgets, planets)
		c := newCluster(t, configMaps, ingressClasses, widgets, planets)
		t.Cleanup(func() { c.remove(ingressClasses, planets) })
		c.create(many / 4)
		c.start("a", "-write")
		c.requireSettled("a")
		before := time.Now()
		c.start("b", "-write")
		c.requireSettled("a", "b")
		all := c.list()
		require.Len(t, all, many)
		c.requireWorkedOn(all, "a", "b")
		c.requireCosts(before, ownedBy(all, "b", "a", "b"), cost{sharder: 1, shard: 1})

		edited := map[string]object{}
		for _, o := range all {
			edited[o.kind.Kind] = o
		}
		require.Len(t, edited, len(c.kinds))
		for _, o := range edited {
			c.edit(o, `{"metadata":{"labels":{%q:null}}}`, shardLabel)
		}
		c.requireRepaired(all, "a", "b")
		c.requireExclusion()
	})
}

// install creates a CustomResourceDefinition for each kind, unless it is there, and returns when
// they are served, and replicas will find them.
func install(t *testing.T, kinds ...kind) {
	t.Helper()
	client, err := dynamic.NewForConfig(shared.Admin())
	require.NoError(t, err)
	discoverer, err := discovery.NewDiscoveryClientForConfig(shared.Admin())
	require.NoError(t, err)
	definitions := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions",
	})
	for _, k := range kinds {
		scope := "Cluster"
		if k.namespaced {
			scope = "Namespaced"
		}
		definition := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1",
			"kind":       "CustomResourceDefinition",
			"metadata":   map[string]any{"name": k.Resource.Resource + "." + k.Resource.Group},
			"spec": map[string]any{
				"group": k.Resource.Group,
				"scope": scope,
				"names": map[string]any{"plural": k.Resource.Resource, "kind": k.Kind},
				"versions": []any{map[string]any{
					"name": k.Resource.Version, "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
				}},
			},
		}}
		if _, err := definitions.Create(t.Context(), definition,
			metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			require.NoError(t, err)
		}
		require.True(t, waitFor(t.Context(), time.Minute, func() bool {
			if _, err := client.Resource(k.Resource).List(t.Context(), metav1.ListOptions{}); err != nil {
				return false
			}
			known, err := restmapper.GetAPIGroupResources(discoverer) // which comes later
			if err != nil {
				return false
			}
			_, err = restmapper.NewDiscoveryRESTMapper(known).KindFor(k.Resource)
			return err == nil
		}), "%s are not served", k.Resource)
	}
}

// remove deletes the objects of kinds that do not go with the namespace.
func (c *cluster) remove(kinds ...kind) {
	for _, k := range kinds {
		err := c.objects(k).DeleteCollection(context.Background(), metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: "test=" + c.namespace})
		require.NoError(c.t, err)
	}
}
