package memory_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/referee"
)

// Servers come and go. One that is dead vanishes, and those that live stay published all the time.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	s := newCluster(t)
	_, err := s.client.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	seen := referee.WatchService(t, s.client, namespace, "web")
	server := func(name, address string) *e2e.Process {
		return s.start("endpoints", e2e.Command{Name: name, Args: []string{
			"-kubeconfig", s.kubeconfig, "-namespace", namespace, "-service", "web", "-addresses", address,
			"-listen", "127.0.0.1:0", "-port", "443", "-linger", "0s", "-interval", (lease / 5).String(),
			"-expire-after", lease.String(),
		}})
	}
	requirePublished := func(want ...string) {
		t.Helper()
		s.eventually(func() bool { return slices.Equal(want, seen.Now()) }, "published are %v", want)
	}
	const first, second, third = "192.0.2.1", "192.0.2.2", "192.0.2.3"
	server("a", first)
	b, c := server("b", second), server("c", third)
	requirePublished(first, second, third)

	since := seen.Mark()
	require.NoError(t, b.Kill())
	requirePublished(first, third)
	for _, published := range since() {
		assert.Subset(t, published, []string{first, third}, "a server that lives has vanished")
	}

	require.NoError(t, b.Restart())
	requirePublished(first, second, third)
	require.NoError(t, c.Terminate())
	s.requireExit(c, 0)
	list, err := s.client.DiscoveryV1().EndpointSlices(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Equal(t, []string{first, second}, referee.Published(list.Items...), "gone when it has ended")
	for _, published := range since() {
		assert.Contains(t, published, first, "a server that lives has vanished")
	}
}
