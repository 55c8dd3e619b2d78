package e2e_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

func TestVersionsAreCompleteAndInOrder(t *testing.T) {
	t.Parallel()
	cp := e2e.Start(t, e2e.Options{})
	client := clientFor(t, cp.Admin())
	namespace, err := cp.Namespace(t.Context(), "versions")
	require.NoError(t, err)
	createConfigMap(t, client, namespace, "before")
	createConfigMap(t, client, "default", "elsewhere")
	require.NoError(t, cp.Apply(t.Context(), "../../examples/anycontroller/crd.yaml"))

	const custom = "example.bellwether.dev/greetings"
	refused := errors.New("refused")
	assert.ErrorIs(t, cp.Versions(t.Context(), namespace, []string{"configmaps"}, func(e2e.Version) error {
		return refused
	}), refused)
	seen := make(chan e2e.Version, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- cp.Versions(ctx, namespace, []string{"configmaps", "secrets", custom}, func(v e2e.Version) error {
			seen <- v
			return nil
		})
	}()
	next := func() e2e.Version {
		select {
		case v := <-seen:
			return v
		case <-t.Context().Done():
			require.Fail(t, "no version")
			return e2e.Version{}
		}
	}
	assert.Equal(t, "before", next().Object.GetName())
	secret, err := client.CoreV1().Secrets(namespace).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "after"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	v := next()
	assert.Equal(t, secret.UID, v.Object.GetUID())
	assert.Equal(t, secret.ResourceVersion, v.Object.GetResourceVersion())
	assert.Equal(t, "secrets", v.Resource)
	create := client.CoreV1().RESTClient().Post().
		AbsPath("/apis/example.bellwether.dev/v1/namespaces", namespace, "greetings").
		SetHeader("Content-Type", "application/json").Body([]byte(`{"apiVersion":"example.bellwether.dev/v1",` +
		`"kind":"Greeting","metadata":{"name":"custom"},"spec":{"text":"x"}}`))
	require.Eventually(t, func() bool { return create.Do(t.Context()).Error() == nil }, patience, poll) // it is defined
	v = next()
	assert.Equal(t, custom, v.Resource)
	assert.Equal(t, "custom", v.Object.GetName())

	require.NoError(t, cp.CompactTo(t.Context(), v.Revision)) // what was read may be forgotten
	for _, server := range []*e2e.Process{cp.Etcd, cp.APIServer} {
		require.NoError(t, server.Restart())
	}
	requireReady(t, cp)
	require.NoError(t, client.CoreV1().Secrets(namespace).Delete(t.Context(), "after", metav1.DeleteOptions{}))
	gone := next()
	assert.True(t, gone.Deleted)
	assert.Equal(t, secret.UID, gone.Object.GetUID())
	assert.Greater(t, gone.Revision, v.Revision)
	cancel()
	require.NoError(t, <-ended)
	assert.ErrorContains(t, cp.Versions(t.Context(), namespace, []string{"configmaps"}, func(e2e.Version) error {
		return nil
	}), "were compacted")
}
