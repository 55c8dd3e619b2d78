package shardertest_test

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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
)

// keys is a sharded controller as a user writes it: every ConfigMap gets a Secret.
type keys struct {
	client kubernetes.Interface
	shard  *shard.Shard
}

func (k *keys) run(ctx context.Context) error {
	parents := k.shard.NewInformer(shard.ListerWatcher(k.client.CoreV1().ConfigMaps(""), k.client), &corev1.ConfigMap{},
		0, cache.Indexers{})
	return shard.RunController(ctx, k.shard, parents, 2, k.reconcile)
}

func (k *keys) reconcile(ctx context.Context, m *corev1.ConfigMap) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: m.Name, OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(m, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
	}}}
	if err := k.shard.Stamp(secret); err != nil {
		return err
	}
	_, err := k.client.CoreV1().Secrets(m.Namespace).Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// This test shows how to test the controller. The controller works on a fake clientset, and the
// test acts as the sharder: it assigns an object and drains it. In a synctest bubble, synctest.Wait
// returns when nothing is left to do.
func TestKeysAreMadeForWhatIsThisShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleClientset()
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
		lease, worker, err := shardertest.NewShard(client, mapper,
			api.Resource{GVR: configMaps, Children: []schema.GroupVersionResource{secrets}})
		require.NoError(t, err)

		ctx, end := context.WithCancel(t.Context())
		require.NoError(t, lease.Run(ctx, func(ctx context.Context) error {
			ended := make(chan error, 1)
			go func() { ended <- (&keys{client, worker}).run(ctx) }()

			// One object is assigned to this shard, the other to none.
			objects := client.CoreV1().ConfigMaps("default")
			mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "1"}}
			require.NoError(t, shardertest.Assign(lease, mine))
			mine, err := objects.Create(ctx, mine, metav1.CreateOptions{})
			require.NoError(t, err)
			_, err = objects.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "unassigned", UID: "2"}},
				metav1.CreateOptions{})
			require.NoError(t, err)
			synctest.Wait()
			made, err := client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
			require.NoError(t, err)
			require.Len(t, made.Items, 1)
			assert.Equal(t, "mine", made.Items[0].Name)
			assert.Equal(t, lease.Identity(), made.Items[0].Labels[api.ShardLabel(lease.Ring())])

			// The sharder drains the object. The shard lets go of it and does not work on it any
			// more.
			shardertest.Drain(lease, mine)
			_, err = objects.Update(ctx, mine, metav1.UpdateOptions{})
			require.NoError(t, err)
			synctest.Wait()
			after, err := objects.Get(ctx, "mine", metav1.GetOptions{})
			require.NoError(t, err)
			assert.NotContains(t, after.Labels, api.ShardLabel(lease.Ring()))
			assert.ErrorIs(t, worker.Do(ctx, after, func(context.Context) error { return nil }), shard.ErrNotMine)

			end()
			return <-ended
		}))
	})
}
