package leaderforlife_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// example is where the manifests are that users copy.
const example = "../../../examples/leaderforlife"

// TestManifests deploys the example as its manifests say, and runs its program with the tokens of
// its Pods: what is written there has to be enough, with the optional Role and without.
func TestManifests(t *testing.T) {
	t.Parallel()
	require.NoError(t, shared.Apply(t.Context(), filepath.Join(example, "rbac.yaml")))
	require.NoError(t, shared.Apply(t.Context(), filepath.Join(example, "deployment.yaml")))
	client, err := kubernetes.NewForConfig(shared.Admin())
	require.NoError(t, err)
	c := &cluster{t: t, client: client, namespace: "default"}
	pods := func(before ...corev1.Pod) []corev1.Pod {
		t.Helper()
		var list *corev1.PodList
		require.Eventually(t, func() bool {
			list, err = client.CoreV1().Pods("default").List(t.Context(),
				metav1.ListOptions{LabelSelector: "app=example-leader", FieldSelector: "status.phase=Running"})
			return err == nil && len(list.Items) == 2 && !slices.ContainsFunc(list.Items, func(p corev1.Pod) bool {
				return slices.ContainsFunc(before, func(b corev1.Pod) bool { return p.UID == b.UID })
			})
		}, patience, poll, "the Deployment's Pods do not run")
		return list.Items
	}
	first := pods()
	a := c.daemon("a", &first[0])
	a.requireLine(t, `"working"`)
	b := c.daemon("b", &first[1])
	b.requireLine(t, "polling instead of watching pods")
	for _, d := range []*daemon{a, b} {
		assert.True(t, d.says("without the verb list on pods"))
		assert.True(t, d == b || d.says("without the verb patch on pods"))
		assert.False(t, d.says("retrying"), "the Role is not enough")
	}
	require.NoError(t, a.Kill())
	require.NoError(t, client.CoreV1().Pods("default").Delete(t.Context(), first[0].Name, metav1.DeleteOptions{}))
	b.requireLine(t, `"working"`)
	require.NoError(t, b.Kill())

	require.NoError(t, shared.Apply(t.Context(), filepath.Join(example, "rbac-optional.yaml")))
	require.NoError(t, client.CoreV1().Pods("default").Delete(t.Context(), first[1].Name, metav1.DeleteOptions{}))
	second := pods(first...)
	a, b = c.daemon("c", &second[0]), c.daemon("d", &second[1])
	leads, waits := a, b
	require.Eventually(t, func() bool {
		if b.says(`"working"`) {
			leads, waits = b, a
		}
		return leads.says(`"working"`) && waits.says("its Pod runs")
	}, patience, poll)
	lock := c.lock()
	require.NoError(t, leads.Kill())
	require.NoError(t,
		client.CoreV1().Pods("default").Delete(t.Context(), lock.OwnerReferences[0].Name, metav1.DeleteOptions{}))
	waits.requireLine(t, `"working"`)
	for _, d := range []*daemon{a, b} {
		assert.False(t, d.says("without the verb") || d.says("polling"), "the Roles are not enough: %s", d.Log())
	}
}
