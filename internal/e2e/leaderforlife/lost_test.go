package leaderforlife_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

// A leader on a node that is lost is not succeeded before somebody says that the machine is off.
func TestLostNode(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCrew(t)
		require.NoError(t, shared.Grant(t.Context(), "system:serviceaccount:"+c.namespace+":default", "",
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "watch"}}))
		a := c.candidate(c.pod("a", lostNode))
		c.requireLead(a)
		b := c.candidate(c.pod("b", goodNode), leader.WithNodeCheck())
		ignorant := c.candidate(c.pod("c", goodNode))
		c.requireWaiting(b, "its Pod runs")

		require.NoError(t, shared.Node(lostNode).Pause())
		lost := time.Now()
		c.requireWaiting(b, "its node is not Ready, which proves nothing")
		t.Logf("not Ready %v after its kubelet was stopped", time.Since(lost))
		require.NoError(t, c.client.CoreV1().Pods(c.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}))
		c.requireWaiting(b, "its Pod is to end by", "its node is not Ready")
		c.requireWaiting(ignorant, "its Pod is to end by")

		proof := time.Now()
		c.taint(`{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}`)
		c.requireLead(b)
		since, _ := b.leads()
		t.Logf("led %v after the taint", since.Sub(proof))
		assert.Less(t, since.Sub(proof), time.Second)
		_, leads := ignorant.leads()
		assert.False(t, leads)

		require.NoError(t, shared.Node(lostNode).Resume())
		c.taint(`{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute","$patch":"delete"}`)
	})
}

// taint changes a taint of the node that is lost.
func (c *crew) taint(taint string) {
	c.t.Helper()
	_, err := c.client.CoreV1().Nodes().Patch(c.t.Context(), lostNode, types.StrategicMergePatchType, []byte(`{"spec":{"taints":[`+taint+`]}}`), metav1.PatchOptions{})
	require.NoError(c.t, err)
}
