package main

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
)

// A reconciler's test needs neither a manager nor an API server. controller-runtime's fake client
// shows the objects of the ring, and the test plays the sharder. In a bubble,
// synctest.Wait returns when nothing is left to do.
func TestDigestsCoverThisShardsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := shardertest.New(t, shardertest.Config{
			Resources: []api.Resource{{GVR: configMaps, Children: []schema.GroupVersionResource{secrets}}},
		})
		work := digests{
			client: fake.NewClientBuilder().WithObjectTracker(ring.Tracker).WithRESTMapper(ring.Mapper).Build(),
			shard:  ring.Shard,
		}
		ring.Run(func(ctx context.Context) {
			ring.Go(func(ctx context.Context) error {
				ring.Informer(configMaps).RunWithContext(ctx)
				return nil
			})
			mine, nobodys := configMap("mine"), configMap("nobodys")
			ring.Assign(mine)
			ring.Create(nobodys)
			digestOf := func(m *corev1.ConfigMap) string {
				synctest.Wait() // for the informer
				_, err := work.guarded().Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(m)})
				require.NoError(t, err)
				var s corev1.Secret
				err = work.client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Name + "-digest"}, &s)
				require.NoError(t, client.IgnoreNotFound(err))
				if err == nil {
					assert.Equal(t, ring.Lease.Identity(), s.Labels[api.ShardLabel(ring.Lease.Ring())],
						"a child is stamped")
				}
				return string(s.Data[digestKey])
			}
			assert.Empty(t, digestOf(nobodys))
			assert.Equal(t, "21f76dfbfe6dfe21f762080ef484112cf2952974cef30741fd1931e1c6d92112", digestOf(mine),
				`of {"a":"1","b":"2"}`)

			// The sharder drains it: the shard lets go of it, and works on it no more.
			mine.Data = map[string]string{"changed": "meanwhile"}
			require.NoError(t, work.client.Update(ctx, mine))
			ring.Drain(mine)
			assert.Equal(t, "21f76dfbfe6dfe21f762080ef484112cf2952974cef30741fd1931e1c6d92112", digestOf(mine))
			ring.Get(mine)
			assert.NotContains(t, mine.Labels, api.ShardLabel(ring.Lease.Ring()))
		})
	})
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Data:       map[string]string{"b": "2", "a": "1"},
	}
}

func TestACensusCountsDigests(t *testing.T) {
	secret := func(name, key string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Data:       map[string][]byte{key: []byte("…")},
		}
	}
	c := census{client: fake.NewClientBuilder().WithObjects(secret("x-digest", digestKey),
		secret("y-digest", digestKey), secret("z", "other")).Build()}
	request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "default", Name: censusName}}
	for range 2 {
		_, err := c.Reconcile(t.Context(), request)
		require.NoError(t, err)
		var m corev1.ConfigMap
		require.NoError(t, c.client.Get(t.Context(), request.NamespacedName, &m))
		assert.Equal(t, map[string]string{"digests": "2"}, m.Data)
	}
}
