package kubelet

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

func TestKubeletReportsStatusOfPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := kubernetes.NewForConfig(apisim.NewServer().Client("test").Config())
		require.NoError(t, err)
		pods := client.CoreV1().Pods("ns")
		k := Start(t.Context(), pods, "one")
		defer func() { assert.NoError(t, k.Close()) }()
		for name, node := range map[string]string{"mine": "one", "other": "two"} {
			_, err := pods.Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: corev1.PodSpec{
					NodeName: node, TerminationGracePeriodSeconds: ptr.To[int64](30),
					Containers: []corev1.Container{{Name: "daemon"}},
				},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		get := func(name string) (*corev1.Pod, error) {
			synctest.Wait()
			return pods.Get(t.Context(), name, metav1.GetOptions{})
		}

		mine, err := get("mine")
		require.NoError(t, err)
		assert.Equal(t, corev1.PodRunning, mine.Status.Phase)
		assert.NotNil(t, mine.Status.ContainerStatuses[0].State.Running)
		other, err := get("other")
		require.NoError(t, err)
		assert.Empty(t, other.Status.Phase)

		require.NoError(t, k.Pause())
		require.NoError(t, pods.Delete(t.Context(), "mine", metav1.DeleteOptions{}))
		mine, err = get("mine")
		require.NoError(t, err)
		assert.NotNil(t, mine.DeletionTimestamp)
		require.NoError(t, k.Resume())
		_, err = get("mine")
		assert.True(t, apierrors.IsNotFound(err), "%v", err)
	})
}

// As after a chapter that has failed meanwhile.
func TestPausedKubeletCanBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := kubernetes.NewForConfig(apisim.NewServer().Client("test").Config())
		require.NoError(t, err)
		k := Start(t.Context(), client.CoreV1().Pods("ns"), "one")
		require.NoError(t, k.Pause())
		_, err = client.CoreV1().Pods("ns").
			Create(t.Context(),
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: corev1.PodSpec{NodeName: "one"}},
				metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		assert.NoError(t, k.Close())
	})
}
