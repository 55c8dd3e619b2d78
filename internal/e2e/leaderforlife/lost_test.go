package leaderforlife_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

// A leader on a lost node has no successor before the machine is reported to be off. The test is
// not parallel: it measures milliseconds.
func TestLostNode(t *testing.T) {
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		require.NoError(t, shared.Grant(t.Context(), "system:serviceaccount:"+c.namespace+":default", "",
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "watch"}}))
		a := c.candidate(c.pod("a", lostNode))
		c.requireLead(a)
		c.setFinalizers("a", `["e2e.invalid/stays"]`)
		b := c.candidate(c.pod("b", goodNode), leader.WithNodeCheck())
		ignorant := c.candidate(c.pod("c", goodNode))
		c.requireWaiting(b, "its Pod runs")

		require.NoError(t, shared.Node(lostNode).Pause())
		lost := time.Now()
		c.requireWaiting(b, "its node is not Ready, which proves nothing")
		t.Logf("not Ready %v after its kubelet was stopped", time.Since(lost))
		require.NoError(t, c.client.CoreV1().Pods(c.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}))
		c.requireWaiting(b, "its Pod is terminating, with grace until", "its node is not Ready")
		c.requireWaiting(ignorant, "its Pod is terminating, with grace until")

		c.editTaints(func(taints []corev1.Taint) []corev1.Taint { return append(taints, outOfService) })
		proof := time.Now()
		c.requireLead(b)
		since, _ := b.leads()
		t.Logf("led %v after the taint", since.Sub(proof))
		assert.Less(t, since.Sub(proof), c.gauge.Slack(proof))
		_, leads := ignorant.leads()
		assert.False(t, leads)

		require.NoError(t, shared.Node(lostNode).Resume())
		c.editTaints(func(taints []corev1.Taint) []corev1.Taint {
			return slices.DeleteFunc(taints, func(t corev1.Taint) bool { return t.Key == outOfService.Key })
		})
		c.setFinalizers("a", "null")
	})
}

// setFinalizers keeps a Pod, or lets it go. Every 20 s the Pod garbage collector deletes by force
// what is to end on a node with the taint below: that would be a proof for all candidates.
func (c *cluster) setFinalizers(pod, list string) {
	c.t.Helper()
	_, err := c.client.CoreV1().Pods(c.namespace).Patch(c.t.Context(), pod, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":`+list+`}}`), metav1.PatchOptions{})
	require.NoError(c.t, err)
}

var outOfService = corev1.Taint{
	Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown",
	Effect: corev1.TaintEffectNoExecute,
}

// editTaints changes the taints of the node that is lost, as the node controller does too.
func (c *cluster) editTaints(edit func([]corev1.Taint) []corev1.Taint) {
	c.t.Helper()
	require.NoError(c.t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := c.client.CoreV1().Nodes().Get(c.t.Context(), lostNode, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = edit(node.Spec.Taints)
		_, err = c.client.CoreV1().Nodes().Update(c.t.Context(), node, metav1.UpdateOptions{})
		return err
	}))
}
