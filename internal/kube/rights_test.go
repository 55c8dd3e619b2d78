package kube

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/bellwether-k8s/bellwether/internal/kube/kubetest"
)

func TestMissingRights(t *testing.T) {
	client := fake.NewSimpleClientset()
	wanted := []Right{
		{Verb: "get", Resource: coordinationv1.Resource("leases"), Namespace: "ns", Name: "l"},
		{Verb: "create", Resource: coordinationv1.Resource("leases"), Namespace: "ns"},
		{Verb: "update", Resource: coordinationv1.Resource("leases"), Namespace: "ns", Name: "l"},
		{Verb: "list", Resource: corev1.Resource("nodes")},
	}
	_, err := MissingRights(t.Context(), client, wanted)
	assert.ErrorIs(t, err, errNoReview, "a fake allows nothing")

	kubetest.AnswerReviews(client, func(of *authorizationv1.ResourceAttributes) bool {
		return of.Verb == "get" && of.Name == "l"
	})
	missing, err := MissingRights(t.Context(), client, wanted)
	require.NoError(t, err)
	assert.Equal(t, wanted[1:], missing)
	assert.Equal(t, `create, update on resource leases of API group "coordination.k8s.io" in namespace ns; `+
		`list on resource nodes of API group "" by a ClusterRole`, Grants(missing))

	failed := errors.New("no answer")
	client.PrependReactor("create", "selfsubjectaccessreviews",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, failed })
	_, err = MissingRights(t.Context(), client, wanted)
	assert.ErrorIs(t, err, failed)
}
