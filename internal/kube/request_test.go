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
	err := kube.RequestError("get", "Lease ns/x", leases, refused)
	assert.ErrorIs(t, err, refused)
	assert.ErrorContains(t, err, `not allowed to get Lease ns/x: grant the verb "get" on resource leases of API `+
		`group "coordination.k8s.io": `)

	conflict := apierrors.NewConflict(leases, "x", errors.New("changed"))
	assert.EqualError(t, kube.RequestError("update", "Lease ns/x", leases, conflict),
		"update Lease ns/x: "+conflict.Error())
}
