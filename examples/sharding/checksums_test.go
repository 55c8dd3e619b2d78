package main

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
)

func TestChecksumsCoverThisShardsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleClientset() // NewClientset is a hundred times slower in a bubble
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		lease, shard, err := shardertest.NewShard(client, mapper, api.Resource{GVR: configMaps, Selector: wanted})
		require.NoError(t, err)
		work := checksums{
			client: client, shard: shard, namespace: "default", workers: 2, journal: true,
			log: zaptest.NewLogger(t),
		}

		ctx, end := context.WithCancel(t.Context())
		require.NoError(t, lease.Run(ctx, func(ctx context.Context) error {
			for _, name := range []string{"mine", "somebody-elses"} {
				m := &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
					Data:       map[string]string{"b": "2", "a": "1"},
				}
				if name == "mine" {
					require.NoError(t, shardertest.Assign(lease, m))
				}
				_, err := client.CoreV1().ConfigMaps("default").Create(ctx, m, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			go func() {
				synctest.Wait()
				end()
			}()
			return work.run(ctx)
		}))
		all, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		sums := map[string]string{}
		for _, m := range all.Items {
			sums[m.Name] = m.Annotations[checksumAnnotation]
		}
		assert.Equal(t, map[string]string{
			// sha256 of {"a":"1","b":"2"}
			"mine":           "21f76dfbfe6dfe21f762080ef484112cf2952974cef30741fd1931e1c6d92112",
			"somebody-elses": "",
		}, sums)
	})
}
