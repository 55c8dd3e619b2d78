package shard

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
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

// BenchmarkDo measures the overhead of sharding for a controller. It calls Do with work that does
// nothing, on one of 10,000 objects.
func BenchmarkDo(b *testing.B) {
	scheme := metadatafake.NewTestScheme()
	require.NoError(b, metav1.AddMetaToScheme(scheme))
	client := metadatafake.NewSimpleMetadataClient(scheme)
	lease, err := shardlease.New(
		fake.NewSimpleClientset(), shardlease.Config{Namespace: "default", Ring: "r", Identity: "a"},
	)
	require.NoError(b, err)
	shard, err := New(
		client, ringtest.TestMapper(), lease,
		Config{Resources: []api.Resource{{GVR: ringtest.ConfigMaps}}, Unguarded: true},
	)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	require.NoError(b, lease.Run(ctx, func(ctx context.Context) error {
		term, err := lease.Term()
		require.NoError(b, err)
		var last *metav1.PartialObjectMetadata
		for i := range 10000 {
			uid := types.UID(fmt.Sprint(i))
			names, r := shard.keys.Of(ringtest.ConfigMaps.GroupResource()), protocol.Record{
				UID: uid, Shard: "a", LeaseUID: term.Epoch().LeaseUID, Epoch: term.Epoch().Number,
				State: protocol.StateOwned,
			}
			last = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprint(i), UID: uid,
				Labels:      map[string]string{names.Shard: "a", names.Seal: protocol.SealOf(r.Encode())},
				Annotations: map[string]string{names.Record: r.Encode()},
			}}
			last.SetGroupVersionKind(ringtest.ConfigMaps.GroupVersion().WithKind("ConfigMap"))
			require.NoError(b, client.Tracker().Add(last))
		}
		informer := shard.NewInformer(ListerWatcher(client.Resource(ringtest.ConfigMaps), client), last, 0,
			cache.Indexers{})
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			informer.RunWithContext(ctx)
		}()
		require.True(b, cache.WaitForCacheSync(ctx.Done(), informer.HasSynced))
		b.ReportAllocs()
		for b.Loop() {
			if err := shard.Do(ctx, last, func(context.Context) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
		cancel()
		<-stopped
		return nil
	}))
}
