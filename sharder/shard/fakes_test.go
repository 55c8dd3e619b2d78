package shard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Objects are handed over on client-go's fakes, too. The fakes have no versions, UIDs,
// preconditions or selectors of watches.
func TestObjectsAreHandedOverOnFakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := metadatafake.NewTestScheme()
		require.NoError(t, metav1.AddMetaToScheme(scheme))
		client := metadatafake.NewSimpleMetadataClient(scheme)
		lease, err := shardlease.New(
			fake.NewSimpleClientset(), shardlease.Config{Namespace: "default", Ring: "r", Identity: "a"},
		)
		require.NoError(t, err)
		shard, err := New(
			client, ringtest.TestMapper(), lease,
			Config{Resources: []api.Resource{{GVR: ringtest.ConfigMaps}}, Unguarded: true},
		)
		require.NoError(t, err)
		n := protocol.KeysOf("r").Of(ringtest.ConfigMaps.GroupResource())
		objects := client.Resource(ringtest.ConfigMaps).Namespace("default").(metadatafake.MetadataClient)
		patch := func(shard string, drained bool, r *protocol.Record) *metav1.PartialObjectMetadata {
			o, err := objects.Patch(
				t.Context(), "x", types.MergePatchType, n.MergePatch("", "", shard, drained, r), metav1.PatchOptions{},
			)
			require.NoError(t, err)
			time.Sleep(time.Second)
			return o
		}
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
		o.SetGroupVersionKind(ringtest.ConfigMaps.GroupVersion().WithKind("ConfigMap"))
		_, err = objects.CreateFake(o, metav1.CreateOptions{})
		require.NoError(t, err)

		ctx, cancel := context.WithCancel(t.Context())
		assert.NoError(t, lease.Run(ctx, func(ctx context.Context) error {
			informer := shard.NewInformer(ListerWatcher(client.Resource(ringtest.ConfigMaps), client), o, 0,
				cache.Indexers{})
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				informer.RunWithContext(ctx)
			}()
			time.Sleep(time.Second)
			do := func(o *metav1.PartialObjectMetadata) error {
				return shard.Do(ctx, o, func(context.Context) error { return nil })
			}
			assert.ErrorIs(t, do(o), ErrNotMine)
			term, err := lease.Term()
			require.NoError(t, err)
			mine := &protocol.Record{
				Shard: "a", LeaseUID: term.Epoch().LeaseUID, Epoch: term.Epoch().Number, State: protocol.StateOwned,
			}
			for range 2 {
				assert.NoError(t, do(patch("a", false, mine)))
				drained := patch("a", true, nil)
				assert.ErrorIs(t, do(drained), ErrNotMine)
				after, err := objects.Get(ctx, "x", metav1.GetOptions{})
				require.NoError(t, err)
				assert.NotContains(t, after.Labels, n.Shard)
				assert.NotContains(t, after.Labels, n.Drain)
				r, _ := n.RecordOf(after)
				assert.Equal(t, protocol.StateFree, r.State)
				assert.Empty(t, shard.tracker.unfinished(ringtest.ConfigMaps))
			}
			patch("a", false, nil) // the record is free: a stray
			after, err := objects.Get(ctx, "x", metav1.GetOptions{})
			require.NoError(t, err)
			assert.NotContains(t, after.Labels, n.Shard)
			assert.NotContains(t, after.Labels, n.Drain)
			cancel()
			<-stopped
			return nil
		}))
	})
}

// Work without a cache is refused, and the log says so once. A controller whose queue hides the
// refusals does no work, and its operator finds the reason in the log.
func TestWorkWithoutACacheIsRefusedAndSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := metadatafake.NewTestScheme()
		require.NoError(t, metav1.AddMetaToScheme(scheme))
		lease, err := shardlease.New(
			fake.NewSimpleClientset(), shardlease.Config{Namespace: "default", Ring: "r", Identity: "a"},
		)
		require.NoError(t, err)
		core, logs := observer.New(zap.WarnLevel)
		shard, err := New(metadatafake.NewSimpleMetadataClient(scheme), ringtest.TestMapper(), lease, Config{
			Resources: []api.Resource{{GVR: ringtest.ConfigMaps}}, Unguarded: true, Logger: zap.New(core),
		})
		require.NoError(t, err)
		assert.NoError(t, lease.Run(t.Context(), func(ctx context.Context) error {
			for range 2 {
				err := shard.Do(
					ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}},
					func(context.Context) error { return nil },
				)
				assert.ErrorIs(t, err, ErrNotYet)
				assert.ErrorContains(
					t, err, "no cache of its resource is one of Shard.NewInformer (in controller-runtime: "+
						"cache.Options.NewInformer)",
				)
			}
			return nil
		}))
		assert.Len(t, logs.FilterMessage("work is refused, and stays so if no such cache comes").All(), 1)
	})
}
