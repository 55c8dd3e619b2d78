package endpoints

import (
	"context"

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
		all = append(all, kube.RightsOn(resource, namespace, name, verbs...)...)
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
	if c.Events != nil {
		all = append(all, kube.EventRights(c.Namespace)...)
	}
	return all
}

// sayMissingRights logs all rights that are missing, after the first round in which one was.
func (r *Reconciler) sayMissingRights(ctx context.Context) {
	ctx, cancel := r.share(ctx)
	defer cancel()
	kube.SayMissingRights(ctx, r.client, r.config.rights(), r.config.Logger)
}
