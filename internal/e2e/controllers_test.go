package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

func TestControllersAndNodes(t *testing.T) {
	t.Parallel()
	start := time.Now()
	cp := e2e.Start(t, e2e.Options{ControllerManager: true, Scheduler: true, Nodes: []string{"one", "two"}})
	t.Logf("ready after %s", time.Since(start).Round(time.Millisecond))
	require.Nil(t, cp.Node("three"))

	t.Run("the garbage collector removes what is owned", func(t *testing.T) {
		t.Parallel()
		garbageIsCollected(t, cp)
	})
	t.Run("a namespace gets its default service account", func(t *testing.T) {
		t.Parallel()
		namespace, err := cp.Namespace(t.Context(), "account")
		require.NoError(t, err)
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			_, err := clientFor(t, cp.Admin()).CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default",
				metav1.GetOptions{})
			assert.NoError(c, err)
		}, patience, poll)
	})
	t.Run("a node runs a pod, is lost and returns", func(t *testing.T) {
		t.Parallel()
		nodeRunsAPodAndIsLost(t, cp)
	})
}

func garbageIsCollected(t *testing.T, cp *e2e.ControlPlane) {
	client := clientFor(t, cp.Admin())
	namespace, err := cp.Namespace(t.Context(), "garbage")
	require.NoError(t, err)
	configMaps := client.CoreV1().ConfigMaps(namespace)
	createConfigMap(t, client, namespace, "owner")
	owner, err := configMaps.Get(t.Context(), "owner", metav1.GetOptions{})
	require.NoError(t, err)
	createConfigMap(t, client, namespace, "owned", metav1.OwnerReference{
		APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID,
	})
	createConfigMap(t, client, namespace, "bystander")

	require.NoError(t, configMaps.Delete(t.Context(), "owner", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(get(t, client, namespace, "owned", patience))
	}, patience, poll)
	assert.NoError(t, get(t, client, namespace, "bystander", patience))
}

func nodeRunsAPodAndIsLost(t *testing.T, cp *e2e.ControlPlane) {
	client := clientFor(t, cp.Admin())
	namespace, err := cp.Namespace(t.Context(), "pod")
	require.NoError(t, err)
	_, err = client.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none.invalid/none"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	var node string
	require.Eventually(t, func() bool {
		pod, err := client.CoreV1().Pods(namespace).Get(t.Context(), "pod", metav1.GetOptions{})
		if err != nil || pod.Status.Phase != corev1.PodRunning {
			return false
		}
		node = pod.Spec.NodeName
		return true
	}, patience, poll)

	ready := func(name string) corev1.ConditionStatus {
		node, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		assert.NoError(t, err)
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return condition.Status
			}
		}
		return ""
	}
	require.NotNil(t, cp.Node(node))
	require.NoError(t, cp.Node(node).Pause())
	start := time.Now()
	require.Eventually(t, func() bool { return ready(node) == corev1.ConditionUnknown }, patience, poll)
	t.Logf("NotReady %s after its process was paused", time.Since(start).Round(time.Millisecond))
	for _, other := range []string{"one", "two"} {
		if other != node {
			require.Eventually(t, func() bool { return ready(other) == corev1.ConditionTrue }, patience, poll,
				"the other node")
		}
	}
	require.NoError(t, cp.Node(node).Resume())
	require.Eventually(t, func() bool { return ready(node) == corev1.ConditionTrue }, patience, poll)
}
