package leaderelection_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// Work that fails by itself has not lost the lead: neither the error, nor the log, nor a hook says so.
func TestTheWorksOwnErrorIsNotALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.DebugLevel)
		client := fake.NewSimpleClientset()
		var stopped []error
		elector, err := leaderelection.New(client, leaderelection.Config{
			Namespace: "ns", Name: "l", Logger: zap.New(core),
			OnLost: func(err error) { t.Errorf("lost: %v", err) },
			Hooks: leaderelection.Hooks{
				OnStoppedLeading: func(_ leaderelection.Term, err error) { stopped = append(stopped, err) },
			},
		})
		require.NoError(t, err)
		own := errors.New("the port is in use")
		assert.Equal(t, own, elector.Run(t.Context(), func(context.Context) error { return own }))
		assert.Equal(t, []error{nil}, stopped)
		said := logs.FilterMessage("stopped leading").All()
		require.Len(t, said, 1)
		assert.Equal(t, "the port is in use", said[0].ContextMap()["error"])
		for _, line := range logs.All() {
			assert.NotContains(t, line.Message, "lost")
		}
		l, err := client.CoordinationV1().Leases("ns").Get(t.Context(), "l", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Empty(t, *l.Spec.HolderIdentity, "released")
	})
}
