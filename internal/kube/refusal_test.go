package kube_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// The texts are those of kube-apiserver 1.36; internal/e2e/leaderelection has the real ones.
func TestOnlyAnAuthorizersRefusalMissesARole(t *testing.T) {
	for why, unauthorized := range map[string]bool{
		`User "system:serviceaccount:a:b" cannot create resource "leases" in API group "coordination.k8s.io" in the ` +
			`namespace "a"`: true,
		`User "a \"b" cannot get resource "pods/log" in API group "" at the cluster scope: RBAC: ` +
			`clusterrole.rbac.authorization.k8s.io "x" not found`: true,
		`User "a" cannot get path "/metrics"`: true,
		`exceeded quota: q, requested: count/leases.coordination.k8s.io=1, used: count/leases.coordination.k8s.io=0, ` +
			`limited: count/leases.coordination.k8s.io=0`: false,
		`unable to create new content in namespace a because it is being terminated`:         false,
		`ValidatingAdmissionPolicy 'p' with binding 'b' denied request: User cannot do that`: false,
		`admission webhook "w" denied the request: no`:                                       false,
	} {
		err := apierrors.NewForbidden(leases, "x", errors.New(why))
		assert.Equal(t, unauthorized, kube.RoleMissing(err), why)
		assert.Equal(t, unauthorized, kube.RoleMissing(fmt.Errorf("create: %w", err)), why)
	}
	assert.False(t, kube.RoleMissing(nil))
	assert.False(t, kube.RoleMissing(errors.New(`User "a" cannot get resource "leases"`)), "not of an API server")
}
