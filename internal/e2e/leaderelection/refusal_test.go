package leaderelection_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// TestQuotaIsNoMissingRole has the Lease refused with 403 by an exceeded quota, for longer than a
// role may be missing.
func TestQuotaIsNoMissingRole(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		const leases = "count/leases.coordination.k8s.io"
		none := corev1.ResourceList{leases: resource.MustParse("0")}
		quotas := c.client().CoreV1().ResourceQuotas(c.namespace)
		quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		// which a controller writes that does not run here
		quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
		_, err = quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{})
		require.NoError(t, err)

		replica := c.start("a")
		c.requireLog(replica, "exceeded quota")
		refused := time.Now()
		c.requireAudited("a", refused.Add(duration), "create 403", 2)
		assert.NotContains(t, c.log(replica), "grant the verb")
		require.NoError(t, quotas.Delete(t.Context(), "none", metav1.DeleteOptions{}))
		assert.Equal(t, "a", c.term(1).replica, "it has gone on asking")
	})
}

// TestEndingNamespaceIsNoMissingRole has the Lease refused with 403 because its namespace is being
// deleted.
func TestEndingNamespaceIsNoMissingRole(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		user := c.user("a", verbs...)
		namespaces := c.client().CoreV1().Namespaces()
		ns, err := namespaces.Get(t.Context(), c.namespace, metav1.GetOptions{})
		require.NoError(t, err)
		require.NoError(t, namespaces.Delete(t.Context(), ns.Name, metav1.DeleteOptions{}))

		replica := c.startAs(user, "a")
		c.requireLog(replica, "because it is being terminated")
		c.requireAudited("a", time.Now().Add(duration), "create 403", 2)
		assert.NotContains(t, c.log(replica), "grant the verb")
		require.NoError(t, replica.Terminate())
		c.requireExit(replica, 0)
	})
}
