// Package conformance_test runs the conformance tables on a real control plane.
package conformance_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/apisim/conformance"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

func TestRealServerConforms(t *testing.T) {
	t.Parallel()
	cp := e2e.Start(t, e2e.Options{})
	clients := clientsFor(t, cp)
	t.Run("together", func(t *testing.T) { runParallel(t, clients, conformance.Cases()) })

	clients.Compact = func(ctx context.Context) error {
		if err := cp.Compact(ctx); err != nil {
			return err
		}
		// An API server caches the history since its start.
		if err := cp.APIServer.Restart(); err != nil {
			return err
		}
		return cp.Ready(ctx)
	}
	for _, c := range conformance.CompactionCases() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, clients) })
	}
}

func TestRealCollectorConforms(t *testing.T) {
	t.Parallel()
	clients := clientsFor(t, e2e.Start(t, e2e.Options{ControllerManager: true}))
	runParallel(t, clients, conformance.CollectorCases())
}

func clientsFor(t *testing.T, cp *e2e.ControlPlane) *conformance.Clients {
	t.Helper()
	namespace, err := cp.Namespace(t.Context(), "conformance")
	require.NoError(t, err)
	clients, err := conformance.NewClients(cp.Admin(), namespace)
	require.NoError(t, err)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: conformance.ServiceAccount}}
	_, err = clients.Typed.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{})
	require.NoError(t, err)
	clients.OfPod = func(ctx context.Context, pod *corev1.Pod) (*rest.Config, error) {
		return cp.ServiceAccount(ctx, pod.Namespace, pod.Spec.ServiceAccountName, pod)
	}
	return clients
}

func runParallel(t *testing.T, clients *conformance.Clients, cases []conformance.Case) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, clients)
		})
	}
}

func TestCaseNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range slices.Concat(conformance.Cases(), conformance.CollectorCases(), conformance.CompactionCases()) {
		assert.False(t, seen[c.Name], "%s", c.Name)
		seen[c.Name] = true
	}
}
