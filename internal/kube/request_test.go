package kube_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

func TestRequestErrorNamesTheVerbToGrant(t *testing.T) {
	refused := apierrors.NewForbidden(leases, "x",
		errors.New(`User "a" cannot get resource "leases" in API group "coordination.k8s.io"`))
	get := kube.Right{Verb: "get", Resource: leases, Namespace: "ns", Name: "x"}
	err := &kube.RequestError{Right: get, Object: "Lease ns/x", Err: refused}
	assert.ErrorIs(t, err, refused)
	assert.ErrorContains(t, err, `not allowed to get Lease ns/x: grant the verb "get" on resource leases of API `+
		`group "coordination.k8s.io" in namespace ns: `)
	err.Namespace = ""
	assert.ErrorContains(t, err, `group "coordination.k8s.io" by a ClusterRole: `)

	conflict := apierrors.NewConflict(leases, "x", errors.New("changed"))
	assert.EqualError(t, &kube.RequestError{Right: get, Err: conflict},
		"get leases x in namespace ns: "+conflict.Error())
}
