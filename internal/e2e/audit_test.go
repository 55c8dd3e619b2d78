package e2e_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

func auditTellsUsersApart(t *testing.T, cp *e2e.ControlPlane) {
	namespace, err := cp.Namespace(t.Context(), "audit")
	require.NoError(t, err)
	require.NoError(t, cp.Grant(t.Context(), "writer", namespace, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"},
	}))
	createConfigMap(t, clientFor(t, cp.User("writer")), namespace, "written")
	_, err = clientFor(t, cp.User("stranger")).CoreV1().ConfigMaps(namespace).Get(t.Context(), "written",
		metav1.GetOptions{})
	require.Error(t, err)

	write := requireAudited(t, cp, func(e e2e.AuditEvent) bool { return e.User == "writer" })
	assert.Equal(t, "create", write.Verb)
	assert.True(t, write.Write())
	assert.Equal(t, "configmaps", write.Resource)
	assert.Equal(t, namespace, write.Namespace)
	assert.Equal(t, "written", write.Name)
	assert.Equal(t, 201, write.Code)
	assert.Equal(t, "ResponseComplete", write.Stage)
	assert.False(t, write.At.Before(write.Received))

	read := requireAudited(t, cp, func(e e2e.AuditEvent) bool { return e.User == "stranger" })
	assert.Equal(t, "get", read.Verb)
	assert.False(t, read.Write())
	assert.Equal(t, 403, read.Code)
	assert.NotEqual(t, write.ID, read.ID)
}

func auditShowsAWatch(t *testing.T, cp *e2e.ControlPlane) {
	const user = "watcher"
	namespace, err := cp.Namespace(t.Context(), "audit-watch")
	require.NoError(t, err)
	require.NoError(t, cp.Grant(t.Context(), user, namespace, readConfigMaps))
	watch, err := clientFor(t, cp.User(user)).CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watch.Stop()
	started := requireAudited(t, cp, func(e e2e.AuditEvent) bool { return e.User == user && e.Verb == "watch" })
	assert.Equal(t, "ResponseStarted", started.Stage)
	watch.Stop()
	requireAudited(t, cp, func(e e2e.AuditEvent) bool { return e.ID == started.ID && e.Stage == "ResponseComplete" })
}

// requireAudited returns the first event that matches, as soon as there is one.
func requireAudited(t *testing.T, cp *e2e.ControlPlane, matches func(e2e.AuditEvent) bool) e2e.AuditEvent {
	t.Helper()
	var found e2e.AuditEvent
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		events, err := cp.Audit()
		require.NoError(c, err)
		i := slices.IndexFunc(events, matches)
		require.GreaterOrEqual(c, i, 0, "not in the audit log")
		found = events[i]
	}, patience, poll)
	return found
}
