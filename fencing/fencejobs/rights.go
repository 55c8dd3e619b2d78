package fencejobs

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// needRights requests, once in a term, a review of the rights that Jobs need with those of the
// controller that ctx belongs to. Without a controller it does nothing.
func (j *Jobs) needRights(ctx context.Context) {
	role := kube.RoleOf(ctx)
	if role == nil {
		return
	}
	if role.Needs(j.client, j.rights) {
		role.Suspect()
	}
}

func (j *Jobs) rights() []kube.Right {
	namespace := j.config.Namespace
	all := kube.RightsOn(batchv1.Resource("jobs"), namespace, "", "create", "get", "patch", "delete")
	all = append(all, kube.RightsOn(corev1.Resource("pods"), namespace, "", "list")...)
	return append(all, kube.RightsOn(corev1.Resource("secrets"), namespace, "", "create", "delete")...)
}
