package apisim_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

func TestCollectGoesInOrderWithoutNeedlessWrites(t *testing.T) {
	inBubble(t,
		func(t *testing.T, server *apisim.Server, _ *apisim.Client, configMaps corev1client.ConfigMapInterface) {
			owner, err := configMaps.Create(t.Context(), named("owner"), metav1.CreateOptions{})
			require.NoError(t, err)
			var want []string
			for i := range 20 {
				object := named(fmt.Sprintf("owned-%02d", i))
				object.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name,
					UID: owner.UID,
				}}
				_, err := configMaps.Create(t.Context(), object, metav1.CreateOptions{})
				require.NoError(t, err)
				want = append(want, object.Name)
			}
			version := func() string {
				list, err := configMaps.List(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				return list.ResourceVersion
			}
			before := version()
			server.Collect()
			assert.Equal(t, before, version())

			require.NoError(t, configMaps.Delete(t.Context(), owner.Name, metav1.DeleteOptions{}))
			events, err := configMaps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: version()})
			require.NoError(t, err)
			defer events.Stop()
			server.Collect()
			var got []string
			for range want {
				got = append(got, (<-events.ResultChan()).Object.(*corev1.ConfigMap).Name)
			}
			assert.Equal(t, want, got)
			before = version()
			server.Collect()
			assert.Equal(t, before, version())
		})
}
