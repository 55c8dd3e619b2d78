package deploy_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// An API server drops what an older definition of NodeFence does not know from the records of a
// newer fencer, and says nothing. So the definition is upgraded first. The records stay.
func TestDefinitionIsUpgradedBeforeTheFencer(t *testing.T) {
	definition := parse(t, repository(t), "/fencing/v1alpha1")
	require.Len(t, definition, 1)
	embedded, err := yaml.YAMLToJSON(v1alpha1.CRD)
	require.NoError(t, err)
	rendered, err := json.Marshal(definition[0])
	require.NoError(t, err)
	require.JSONEq(t, string(embedded), string(rendered))

	older := bundle{definition[0].DeepCopy()}
	versions, _, err := unstructured.NestedSlice(older[0].Object, "spec", "versions")
	require.NoError(t, err)
	require.Len(t, versions, 1)
	unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status",
		"properties", "history")
	require.NoError(t, unstructured.SetNestedSlice(older[0].Object, versions, "spec", "versions"))
	older.apply(t)

	client, err := dynamic.NewForConfig(shared.Admin())
	require.NoError(t, err)
	fences := client.Resource(v1alpha1.GroupVersion().WithResource("nodefences"))
	write := func(history string) (map[string]any, error) {
		status, err := json.Marshal(map[string]any{"status": map[string]any{"history": []string{history}, "level": 1}})
		require.NoError(t, err)
		fence, err := fences.Patch(t.Context(), "fence", types.MergePatchType, status, metav1.PatchOptions{}, "status")
		if err != nil {
			return nil, err
		}
		return fence.Object["status"].(map[string]any), nil
	}
	fence := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(), "kind": "NodeFence", "node": "node",
		"metadata": map[string]any{"name": "fence"},
	}}
	var created *unstructured.Unstructured
	require.Eventually(t, func() bool {
		var err error
		created, err = fences.Create(t.Context(), fence, metav1.CreateOptions{})
		return err == nil
	}, time.Minute, 50*time.Millisecond, "the definition is not served")
	t.Cleanup(func() {
		require.NoError(t, fences.Delete(context.Background(), "fence", metav1.DeleteOptions{}))
	})
	require.Eventually(t, func() bool { // an even older test's definition may be served for a moment
		status, err := write("old")
		return err == nil && status["history"] == nil && status["level"] == int64(1)
	}, time.Minute, 50*time.Millisecond, "the older definition keeps what it does not know")

	definition.apply(t)
	require.Eventually(t, func() bool {
		status, err := write("new")
		return err == nil && status["history"] != nil
	}, time.Minute, 50*time.Millisecond, "the newer definition drops what it knows")
	kept, err := fences.Get(t.Context(), "fence", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, created.GetUID(), kept.GetUID(), "the record is another one")
}
