package sharder

import (
	"testing"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// treeKey is a key that keeps objects with the same tree label together.
func treeKey(dst []byte, _ schema.GroupKind, o metav1.Object) []byte {
	return append(dst, o.GetLabels()["tree"]...)
}

// Generations with one key are with one shard. Widgets control ConfigMaps, and ConfigMaps control
// Pods. Widgets and ConfigMaps are roots with a key in common.
func TestGenerationsWithOneKeyAreWithOneShard(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.Resources = []api.Resource{
			{GVR: ringtest.Widgets, Key: treeKey},
			{GVR: ringtest.ConfigMaps, Key: treeKey, Children: []schema.GroupVersionResource{ringtest.Pods}},
		}
		defer k.sharder(c)()
		a := k.shard("a")
		k.shard("b")
		k.shard("c")
		time.Sleep(time.Second)
		client, err := dynamic.NewForConfig(k.server.Client("user").Config())
		require.NoError(t, err)
		for tree := range 12 {
			labels := map[string]string{"tree": string(rune('a' + tree))}
			widget := &unstructured.Unstructured{}
			widget.SetGroupVersionKind(ringtest.Widgets.GroupVersion().WithKind("Widget"))
			widget.SetName("w-" + labels["tree"])
			widget.SetLabels(labels)
			widget, err = client.Resource(ringtest.Widgets).Namespace("default").Create(t.Context(), widget,
				metav1.CreateOptions{})
			require.NoError(t, err)
			root := &unstructured.Unstructured{}
			root.SetGroupVersionKind(ringtest.ConfigMaps.GroupVersion().WithKind("ConfigMap"))
			root.SetName("c-" + labels["tree"])
			root.SetLabels(labels)
			root.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(widget,
				widget.GroupVersionKind())})
			root, err = client.Resource(ringtest.ConfigMaps).Namespace("default").Create(t.Context(), root,
				metav1.CreateOptions{})
			require.NoError(t, err)
			k.bearOne(root, "")
		}
		together := func(shards int) {
			t.Helper()
			of, all := map[string]string{}, map[string]bool{}
			list, err := k.meta.Resource(ringtest.Widgets).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			for _, o := range list.Items {
				of[o.Labels["tree"]] = k.keys.ShardOf(&o)
				all[k.keys.ShardOf(&o)] = true
			}
			for _, o := range k.objects() {
				assert.Equal(t, of[o.Labels["tree"]], k.keys.ShardOf(&o), o.Name)
			}
			assert.NotContains(t, all, "")
			assert.Len(t, all, shards)
			k.requireFamilies(1)
		}
		time.Sleep(time.Minute)
		together(3)
		a.release()
		time.Sleep(time.Minute)
		together(2)
	})
}
