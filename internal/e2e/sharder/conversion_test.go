package sharder_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder"
)

// Where a conversion webhook does not answer, a ring distributes objects in the version that is stored. In
// another one it cannot, and says so until it can.
func TestAConversionWebhookThatIsDown(t *testing.T) {
	t.Parallel()
	moons := kind{
		Resource: schema.GroupVersionResource{Group: customGroup, Version: "v1", Resource: "moons"},
		Kind:     "Moon", namespaced: true,
	}
	install(t, moons)
	breakConversion(t, moons, "v1alpha1")
	for version, distributed := range map[string]bool{"v1": true, "v1alpha1": false} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			e2e.Repeat(t, func(t *testing.T) {
				c := newCluster(t, moons)
				c.start("a", "-lease-only")
				c.create(4)
				asked := moons
				asked.Resource.Version = version
				var mu sync.Mutex
				var states []sharder.ResourceState
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				defer running.Wait()
				defer stop()
				running.Go(func() {
					runSharder(ctx, c, asked, sharder.Hooks{OnResource: func(s sharder.ResourceState) {
						mu.Lock()
						defer mu.Unlock()
						if ctx.Err() == nil {
							states = append(states, s)
						}
					}})
				})
				if distributed {
					c.eventually(func() bool {
						for _, o := range c.list() {
							if o.misplaced("a") != "" {
								return false
							}
						}
						return true
					}, "objects are not distributed")
					assert.Empty(t, states)
					return
				}
				c.eventually(func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(states) > 0
				}, "nothing is said")
				time.Sleep(10 * time.Second) // several attempts
				mu.Lock()
				defer mu.Unlock()
				for _, s := range states {
					assert.ErrorContains(t, s.Err, "conversion webhook", "%+v", s)
				}
			})
		})
	}
}

// breakConversion adds a version of a custom resource that is served and not stored, and that nothing can
// convert.
func breakConversion(t *testing.T, k kind, version string) {
	t.Helper()
	discoverer, err := discovery.NewDiscoveryClientForConfig(shared.Admin())
	require.NoError(t, err)
	served := func() bool {
		_, err := discoverer.ServerResourcesForGroupVersion(k.Resource.Group + "/" + version)
		return err == nil
	}
	if served() {
		return
	}
	client, err := dynamic.NewForConfig(shared.Admin())
	require.NoError(t, err)
	_, err = client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}).Patch(t.Context(), k.Resource.GroupResource().String(), types.JSONPatchType, []byte(`[
		{"op":"add","path":"/spec/versions/-","value":{"name":"`+version+`","served":true,"storage":false,
			"schema":{"openAPIV3Schema":{"type":"object"}}}},
		{"op":"add","path":"/spec/conversion","value":{"strategy":"Webhook","webhook":{
			"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/"}}}}]`),
		metav1.PatchOptions{})
	require.NoError(t, err)
	require.True(t, waitFor(t.Context(), time.Minute, served), "version %s of %s is not served", version, k.Resource)
}
