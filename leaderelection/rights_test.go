package leaderelection_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/internal/kube/kubetest"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// All missing rights are in one line, when the first request is refused. Where the API server does not
// say which they are, everything else is the same.
func TestMissingRightsAreSaidTogether(t *testing.T) {
	for name, test := range map[string]struct {
		reviews bool
		want    []string
	}{
		"can be asked": {true, []string{
			`create, update, watch on resource leases of API group "coordination.k8s.io" in namespace ns; ` +
				`watch on resource pods of API group "" in namespace ns; ` +
				`create, patch on resource events of API group "events.k8s.io" in namespace ns`,
		}},
		"cannot be asked": {false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewSimpleClientset()
				client.PrependReactor("create", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "l",
						fmt.Errorf(`User "u" cannot %s resource "leases"`, a.GetVerb()))
				})
				kubetest.AnswerReviews(client, func(of *authorizationv1.ResourceAttributes) bool {
					return of.Verb == "get"
				})
				if !test.reviews {
					client.PrependReactor("create", "selfsubjectaccessreviews",
						func(clienttesting.Action) (bool, runtime.Object, error) {
							return true, nil, errors.New("no such resource")
						})
				}
				core, logs := observer.New(zap.InfoLevel)
				elector, err := leaderelection.New(client, leaderelection.Config{
					Namespace: "ns", Name: "l", PodUID: "1", Logger: zap.New(core), Events: events.NewFakeRecorder(10),
				})
				require.NoError(t, err)
				err = elector.Run(t.Context(), func(context.Context) error { return nil })
				assert.ErrorContains(t, err, "not allowed to create Lease ns/l: grant the verb")
				assert.Equal(t, test.want, kubetest.Grants(logs))
			})
		})
	}
}
