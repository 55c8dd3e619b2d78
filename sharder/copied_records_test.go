package sharder

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
)

// A restored old record ends no work. kubectl rollout undo restores the annotations of a Deployment
// from the time of a former owner that is gone now. The present owner has been asked to let go of
// the Deployment, and has not done so.
func TestARestoredOldRecordEndsNoWork(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		r := &referee{
			keys: k.keys, owners: map[types.UID]protocol.OwnerEpoch{}, past: map[types.UID]int64{},
			gone: map[types.UID]time.Time{},
		}
		k.server.Observe(r.see)
		stop, shards := k.settledWith(60, k.config(), "a", "b")
		defer stop()
		before := map[string]map[string]string{}
		for _, o := range k.objects() {
			before[o.Name] = o.Annotations
		}
		shards[0].release()
		time.Sleep(time.Minute)
		k.requirePlaced(60, "b")
		stubborn(true, shards[1])
		k.shard("c")
		time.Sleep(10 * time.Second)
		restored := 0
		for _, o := range k.objects() {
			if rec, err := protocol.ParseRecord(before[o.Name][k.keys.Record]); err == nil && rec.Shard == "a" &&
				k.keys.Draining(&o) {
				patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": before[o.Name]}})
				require.NoError(t, err)
				k.edit(o.Name, string(patch))
				restored++
			}
		}
		require.Positive(t, restored)
		time.Sleep(10 * time.Second)
		assert.Empty(t, r.foul, "b may be at work")
		stubborn(false, shards[1])
		time.Sleep(time.Minute)
		k.requirePlaced(60, "b", "c")
		assert.Empty(t, r.foul)
	})
}

// The sharder answers each change of copied annotations once. A controller copies the annotations
// of one object to another whenever either changes, as the Deployment controller does. A user
// restores annotations, as kubectl rollout undo does.
func TestCopiedAnnotationsAreNoReasonToWriteForEver(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.Resources, c.ScanInterval = []api.Resource{
			{GVR: ringtest.Widgets, Key: api.NamespaceKey},
			{GVR: ringtest.ConfigMaps, Key: api.NamespaceKey},
		}, 20*time.Second
		k.shard("a")
		time.Sleep(time.Second)
		defer k.sharder(c)()
		user, err := dynamic.NewForConfig(k.server.Client("user").Config())
		require.NoError(t, err)
		parent, err := user.Resource(ringtest.Widgets).Namespace("default").Create(t.Context(),
			&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "parent"},
			}}, metav1.CreateOptions{})
		require.NoError(t, err)
		child := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "child"},
		}}
		child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(parent,
			schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})})
		_, err = user.Resource(ringtest.ConfigMaps).Namespace("default").Create(t.Context(), child,
			metav1.CreateOptions{})
		require.NoError(t, err)

		controller, err := dynamic.NewForConfig(k.server.Client("controller").Config())
		require.NoError(t, err)
		events := make(chan struct{}, 1)
		var copies atomic.Int32
		k.server.Observe(func(change apisim.Change) {
			if kind := change.After.GetKind(); kind == "Widget" || kind == "ConfigMap" &&
				change.After.GetName() == "child" {
				notify(events)
			}
		})
		ctx := t.Context()
		annotationsOf := func(gvr schema.GroupVersionResource, name string) map[string]string {
			o, err := user.Resource(gvr).Namespace("default").Get(ctx, name, metav1.GetOptions{})
			require.NoError(t, err)
			return o.GetAnnotations()
		}
		annotate := func(client dynamic.Interface, gvr schema.GroupVersionResource, name string,
			annotations map[string]any,
		) {
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
			require.NoError(t, err)
			_, err = client.Resource(gvr).Namespace("default").Patch(ctx, name, types.MergePatchType, patch,
				metav1.PatchOptions{})
			require.NoError(t, err)
		}
		defer k.begin(func(ctx context.Context) {
			for {
				select {
				case <-ctx.Done():
					return
				case <-events:
				}
				changed := map[string]any{}
				has := annotationsOf(ringtest.ConfigMaps, "child")
				for key, value := range annotationsOf(ringtest.Widgets, "parent") {
					if has[key] != value {
						changed[key] = value
					}
				}
				if len(changed) > 0 {
					copies.Add(1)
					annotate(controller, ringtest.ConfigMaps, "child", changed)
				}
			}
		})()
		notify(events)
		time.Sleep(10 * time.Minute)
		total := func() (sum int) {
			for _, count := range k.patched() {
				sum += count
			}
			return sum
		}
		assert.LessOrEqual(t, total(), 4)
		assert.LessOrEqual(t, copies.Swap(0), int32(4))

		undone := map[string]any{}
		for key, value := range annotationsOf(ringtest.ConfigMaps, "child") {
			undone[key] = value
		}
		annotate(user, ringtest.Widgets, "parent", undone)
		time.Sleep(10 * time.Minute)
		assert.LessOrEqual(t, total(), 6)
		assert.LessOrEqual(t, copies.Swap(0), int32(6))
		for key := range annotationsOf(ringtest.Widgets, "parent") {
			assert.NotContains(t, key, "configmaps", "it would be copied to the child for ever")
		}
		for gvr, name := range map[schema.GroupVersionResource]string{
			ringtest.Widgets:    "parent",
			ringtest.ConfigMaps: "child",
		} {
			o, err := user.Resource(gvr).Namespace("default").Get(ctx, name, metav1.GetOptions{})
			require.NoError(t, err)
			r, ok := protocol.KeysOf(testRing).Of(gvr.GroupResource()).RecordOf(o)
			assert.True(t, ok)
			assert.Equal(t, "a", r.Shard)
		}
	})
}
