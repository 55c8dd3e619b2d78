package endpoints_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/internal/kube/kubetest"
)

// All missing rights are in one line, after the first round. The requests of a round depend on each
// other, so its error has only the first.
func TestMissingRightsAreSaidTogether(t *testing.T) {
	client := fake.NewSimpleClientset()
	client.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("services"), "web",
			fmt.Errorf(`User "u" cannot get resource "services"`))
	})
	kubetest.AnswerReviews(client, func(of *authorizationv1.ResourceAttributes) bool {
		return of.Resource == "configmaps" || of.Verb == "list" || of.Verb == "delete"
	})
	core, logs := observer.New(zap.WarnLevel)
	r, err := endpoints.New(client, endpoints.Config{
		Namespace: "ns", Service: "web", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Ports: []endpoints.Port{https}, PublishEndpoints: true, Logger: zap.New(core),
		Events: events.NewFakeRecorder(10),
	})
	require.NoError(t, err)
	for range 3 {
		require.ErrorContains(t, r.ReconcileOnce(t.Context()), "not allowed to get Service ns/web")
	}
	said := logs.FilterMessage("rights are missing: grant all of them").All()
	require.Len(t, said, 1)
	assert.Equal(t, `get on resource services of API group "" in namespace ns; `+
		`get, create, update on resource endpointslices of API group "discovery.k8s.io" in namespace ns; `+
		`get, create, update on resource endpoints of API group "" in namespace ns; `+
		`create, patch on resource events of API group "events.k8s.io" in namespace ns`, said[0].ContextMap()["grant"])
}
