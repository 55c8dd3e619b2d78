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
		m := newTeam(t, shared)
		const leases = "count/leases.coordination.k8s.io"
		none := corev1.ResourceList{leases: resource.MustParse("0")}
		quotas := m.client().CoreV1().ResourceQuotas(m.namespace)
		quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		// which a controller writes that does not run here
		quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
		_, err = quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{})
		require.NoError(t, err)

		replica := m.start("a")
		m.requireLog(replica, "exceeded quota")
		refused := time.Now()
		m.requireAudited("a", refused.Add(duration), "create 403", 2)
		assert.NotContains(t, m.log(replica), "grant the verb")
		require.NoError(t, quotas.Delete(t.Context(), "none", metav1.DeleteOptions{}))
		assert.Equal(t, "a", m.term(1).replica, "it has gone on asking")
	})
}

// TestEndingNamespaceIsNoMissingRole has the Lease refused with 403 because its namespace is being
// deleted.
func TestEndingNamespaceIsNoMissingRole(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		m := newTeam(t, shared)
		user := m.user("a", verbs...)
		namespaces := m.client().CoreV1().Namespaces()
		ns, err := namespaces.Get(t.Context(), m.namespace, metav1.GetOptions{})
		require.NoError(t, err)
		require.NoError(t, namespaces.Delete(t.Context(), ns.Name, metav1.DeleteOptions{}))

		replica := m.startAs(user, "a")
		m.requireLog(replica, "because it is being terminated")
		m.requireAudited("a", time.Now().Add(duration), "create 403", 2)
		assert.NotContains(t, m.log(replica), "grant the verb")
		require.NoError(t, replica.Terminate())
		m.requireExit(replica, 0)
	})
}
