package apisim_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/apisim/conformance"
)

// TestConformanceOverTCP is of a server for other processes.
func TestConformanceOverTCP(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(conformance.Cases(), conformance.CollectorCases(), conformance.CompactionCases()) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel() // some wait for seconds
			server := apisim.NewServer()
			listener := httptest.NewServer(server.Handler())
			t.Cleanup(listener.Close) // after the watches of the case
			over := func(c *apisim.Client) *rest.Config { return &rest.Config{Host: listener.URL + c.Path(), QPS: -1} }
			clients, err := conformance.NewClients(over(server.Client("test")), "conformance")
			require.NoError(t, err)
			clients.OfPod = func(_ context.Context, pod *corev1.Pod) (*rest.Config, error) {
				return over(server.ClientOf(pod)), nil
			}
			runConformance(t, server, clients, c)
		})
	}
}

func TestConformance(t *testing.T) {
	for _, c := range slices.Concat(conformance.Cases(), conformance.CollectorCases(), conformance.CompactionCases()) {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apisim.NewServer()
				clients, err := conformance.NewClients(server.Client("test").Config(), "conformance")
				require.NoError(t, err)
				clients.OfPod = func(_ context.Context, pod *corev1.Pod) (*rest.Config, error) {
					return server.ClientOf(pod).Config(), nil
				}
				runConformance(t, server, clients, c)
			})
		})
	}
}

func runConformance(t *testing.T, server *apisim.Server, clients *conformance.Clients, c conformance.Case) {
	clients.Collect = server.Collect
	clients.Compact = func(context.Context) error {
		server.Compact()
		return nil
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: clients.Namespace}}
	_, err := clients.Typed.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	require.NoError(t, err)
	c.Run(t, clients)
}
