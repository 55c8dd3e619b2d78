package e2e_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

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

// auditResponses logs the content of all ConfigMaps that are written.
const auditResponses = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  verbs: [create, update]
  resources: [{group: "", resources: [configmaps]}]
- level: None
`

// A client that is gone before the answer: its write may be made, and has an error in the log.
func TestAuditOfAWriteWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	cp := e2e.Start(t, e2e.Options{AuditPolicy: auditResponses})
	client := clientFor(t, cp.Admin())
	namespace, err := cp.Namespace(t.Context(), "audit-lost")
	require.NoError(t, err)
	createConfigMap(t, client, namespace, "lost")
	maps := client.CoreV1().ConfigMaps(namespace)
	deadline := time.Now().Add(patience)
	for try := 0; ; try++ {
		require.True(t, time.Now().Before(deadline), "no client was gone at the right moment")
		m, err := maps.Get(t.Context(), "lost", metav1.GetOptions{})
		require.NoError(t, err)
		version, gone := m.ResourceVersion, rand.N(5*time.Millisecond)
		m.Data = map[string]string{"gone-after": gone.String()}
		ctx, cancel := context.WithTimeout(t.Context(), gone)
		_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
		cancel()
		if err == nil {
			continue
		}
		later := "after-" + strconv.Itoa(try)
		createConfigMap(t, client, namespace, later)
		requireAudited(t, cp, func(e e2e.AuditEvent) bool { return e.Name == later })
		m, err = maps.Get(t.Context(), "lost", metav1.GetOptions{})
		require.NoError(t, err)
		if m.ResourceVersion == version {
			continue // not made
		}
		events, err := cp.Audit()
		require.NoError(t, err)
		if slices.ContainsFunc(events, func(e e2e.AuditEvent) bool { return e.ResourceVersion == m.ResourceVersion }) {
			continue // the answer was sent, to no one
		}
		assert.True(t, slices.ContainsFunc(events, func(e e2e.AuditEvent) bool {
			return e.Namespace == namespace && e.Verb == "update" && e.Code >= 499 && e.ResourceVersion == ""
		}))
		return
	}
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
