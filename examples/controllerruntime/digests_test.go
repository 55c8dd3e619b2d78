package main

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
)

// A reconciler's test needs neither a manager nor an API server. controller-runtime's fake client
// and client-go's fake clientset share their objects, and the test plays the sharder. In a bubble,
// synctest.Wait returns when nothing is left to do.
func TestDigestsCoverThisShardsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := clientset.NewSimpleClientset()
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
		lease, worker, err := shardertest.NewShard(objects, mapper,
			api.Resource{GVR: configMaps, Children: []schema.GroupVersionResource{secrets}})
		require.NoError(t, err)
		work := digests{
			client: fake.NewClientBuilder().WithObjectTracker(objects.Tracker()).WithRESTMapper(mapper).Build(),
			shard:  worker,
		}
		informer := worker.NewInformer(shard.ListerWatcher(objects.CoreV1().ConfigMaps(""), objects),
			&corev1.ConfigMap{}, 0, cache.Indexers{})

		require.NoError(t, lease.Run(t.Context(), func(ctx context.Context) error {
			ctx, end := context.WithCancel(ctx)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				informer.RunWithContext(ctx)
			}()
			mine, nobodys := configMap("mine"), configMap("nobodys")
			require.NoError(t, shardertest.Assign(lease, mine))
			require.NoError(t, work.client.Create(ctx, mine))
			require.NoError(t, work.client.Create(ctx, nobodys))
			digestOf := func(m *corev1.ConfigMap) string {
				synctest.Wait() // for the informer
				_, err := work.guarded().Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(m)})
				require.NoError(t, err)
				var s corev1.Secret
				err = work.client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Name + "-digest"}, &s)
				require.NoError(t, client.IgnoreNotFound(err))
				if err == nil {
					assert.Equal(t, lease.Identity(), s.Labels[api.ShardLabel(lease.Ring())], "a child is stamped")
				}
				return string(s.Data[digestKey])
			}
			assert.Empty(t, digestOf(nobodys))
			assert.Equal(t, "21f76dfbfe6dfe21f762080ef484112cf2952974cef30741fd1931e1c6d92112", digestOf(mine),
				`of {"a":"1","b":"2"}`)

			// The sharder drains it: the shard lets go of it, and works on it no more.
			shardertest.Drain(lease, mine)
			mine.Data = map[string]string{"changed": "meanwhile"}
			require.NoError(t, work.client.Update(ctx, mine))
			assert.Equal(t, "21f76dfbfe6dfe21f762080ef484112cf2952974cef30741fd1931e1c6d92112", digestOf(mine))
			require.NoError(t, work.client.Get(ctx, client.ObjectKeyFromObject(mine), mine))
			assert.NotContains(t, mine.Labels, api.ShardLabel(lease.Ring()))

			end()
			<-ended
			return nil
		}))
	})
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)},
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
