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
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
)

// A whole ring runs on a fake clientset. The sharder sees the objects that the clientset creates,
// and the clientset sees the writes of the sharder.
func TestASharderDistributesTheObjectsOfAFakeClientset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleClientset()
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		resource := api.Resource{GVR: configMaps}
		lease, _, err := shardertest.NewShard(client, mapper, resource)
		require.NoError(t, err)
		s, err := sharder.New(client, shardertest.Objects(client, mapper), mapper, sharder.Config{
			Namespace: "default", Ring: lease.Ring(), Resources: []api.Resource{resource},
		})
		require.NoError(t, err)
		create := func(name string) {
			_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		create("early")
		require.NoError(t, lease.Run(t.Context(), func(ctx context.Context) error {
			ctx, end := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			synctest.Wait()
			create("late")
			synctest.Wait()
			for _, name := range []string{"early", "late"} {
				m, err := client.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
				require.NoError(t, err)
				assert.Equal(t, lease.Identity(), m.Labels[api.ShardLabel(lease.Ring())], name)
			}
			end()
			return <-ended
		}))
	})
}

func TestObjectsOfAnUnknownKind(t *testing.T) {
	objects := shardertest.Objects(fake.NewSimpleClientset(), meta.NewDefaultRESTMapper(nil))
	_, err := objects.Resource(configMaps).List(t.Context(), metav1.ListOptions{})
	assert.ErrorContains(t, err, "shardertest: no matches for")
	_, err = objects.Resource(configMaps).Namespace("default").Get(t.Context(), "x", metav1.GetOptions{})
	assert.ErrorContains(t, err, `"x" not found`)
}
