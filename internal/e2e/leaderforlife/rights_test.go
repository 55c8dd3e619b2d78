package leaderforlife_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

// TestMissingRightsAreSaidTogether has a candidate lack two verbs. It finds the second one only when
// it has the first, but says both, and leads when it has both.
func TestMissingRightsAreSaidTogether(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		pod := c.pod("a", handNode)
		user := "candidate-of-" + c.namespace
		require.NoError(t, shared.Grant(t.Context(), user, c.namespace,
			rbacv1.PolicyRule{
				APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "watch", "delete"},
			},
			rbacv1.PolicyRule{
				APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch", "patch"},
			}))
		client, err := kubernetes.NewForConfig(shared.User(user))
		require.NoError(t, err)
		core, logs := observer.New(zap.InfoLevel)
		led := make(chan error)
		go func() {
			led <- leader.Become(t.Context(), lockName, leader.WithClient(client), leader.WithNamespace(c.namespace),
				leader.WithPodName(pod.Name), leader.WithLogger(zap.New(core)))
		}()
		missing := logs.FilterMessage
		const message = "rights are missing: grant all of them"
		require.Eventually(t, func() bool { return missing(message).Len() > 0 }, patience, poll)
		assert.Equal(t, `create on resource configmaps of API group "" in namespace `+c.namespace+
			`; get on resource pods of API group "" in namespace `+c.namespace,
			missing(message).All()[0].ContextMap()["grant"])
		require.NoError(t, shared.Grant(t.Context(), user, c.namespace,
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}))
		require.NoError(t, <-led)
		assert.Equal(t, 1, missing(message).Len())
	})
}
