package endpoints

import (
	"context"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// rights are those that an instance needs. Those of one resource follow one another.
func (c Config) rights() []kube.Right {
	var all []kube.Right
	add := func(resource schema.GroupResource, namespace, name string, verbs ...string) {
		for _, verb := range verbs {
			of := name
			if verb == "create" || verb == "list" { // cannot be restricted to a name
				of = ""
			}
			all = append(all, kube.Right{Verb: verb, Resource: resource, Namespace: namespace, Name: of})
		}
	}
	add(corev1.Resource("services"), c.Namespace, c.Service, "get")
	add(discoveryv1.Resource("endpointslices"), c.Namespace, "", "list", "get", "create", "update", "delete")
	if c.PublishEndpoints {
		add(corev1.Resource("endpoints"), c.Namespace, c.Service, "get", "create", "update")
	}
	switch store := c.Store.(type) {
	case ConfigMapStore:
		add(corev1.Resource("configmaps"), store.Namespace, store.Name, "get", "patch", "create")
	case LeaseStore:
		add(coordinationv1.Resource("leases"), store.Namespace, "", "list", "get", "create", "update", "delete")
	}
	if c.Settings != "" {
		add(corev1.Resource("configmaps"), c.Namespace, c.Settings, "get")
	}
	return all
}

// sayMissingRights logs all rights that are missing, after the first round in which one was.
func (r *Reconciler) sayMissingRights(ctx context.Context) {
	ctx, cancel := r.share(ctx)
	defer cancel()
	missing, err := kube.MissingRights(ctx, r.client, r.config.rights())
	switch {
	case err != nil:
		r.config.Logger.Debug("cannot ask which rights are missing", zap.Error(err))
	case len(missing) > 0:
		r.config.Logger.Warn("rights are missing: grant all of them", zap.String("grant", kube.Grants(missing)))
	}
}
