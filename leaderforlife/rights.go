package leaderforlife

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// rights returns the rights that a candidate needs, and those that it can do without.
func (k *cluster) rights() []kube.Right {
	var all []kube.Right
	add := func(resource schema.GroupResource, namespace, name string, verbs ...string) {
		all = append(all, kube.RightsOn(resource, namespace, name, append(verbs, "watch")...)...)
	}
	lock := schema.GroupResource{Group: k.group, Resource: k.kind}
	add(lock, k.config.namespace, k.config.lock, "create", "get", "delete")
	add(corev1.Resource("pods"), k.config.namespace, "", "get", "list", "patch")
	if k.config.nodes {
		add(corev1.Resource("nodes"), "", "", "get")
	}
	return all
}

// sayMissingRights logs all rights that are missing, once, when a request that a candidate cannot do
// without has been refused for long enough.
func (c *candidate) sayMissingRights(ctx context.Context, err error) {
	if c.rightsAsked || c.refusedFor(err) < refusalPatience {
		return
	}
	c.rightsAsked = true
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	kube.SayMissingRights(ctx, c.config.client, c.rights(), c.config.log)
}
