package apisim_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/apisim/conformance"
)

func TestConformance(t *testing.T) {
	for _, c := range slices.Concat(conformance.Cases(), conformance.CollectorCases(), conformance.CompactionCases()) {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apisim.NewServer()
				clients, err := conformance.NewClients(server.Client("test").Config(), "conformance")
				require.NoError(t, err)
				clients.Collect = server.Collect
				clients.Compact = func(context.Context) error {
					server.Compact()
					return nil
				}
				_, err = clients.Typed.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: clients.Namespace}}, metav1.CreateOptions{})
				require.NoError(t, err)
				c.Run(t, clients)
			})
		})
	}
}
