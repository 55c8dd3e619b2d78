package fencing

import (
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// uses has what the configurations of nodes need beyond what every fence needs.
type uses struct {
	methods map[string]bool // the built-in ones among them
	secrets bool
}

func (u uses) equal(other uses) bool {
	return u.secrets == other.secrets && maps.Equal(u.methods, other.methods)
}

// note adds what a configuration uses.
func (u *uses) note(plan nodeconfig.Plan) {
	for _, level := range slices.Concat(plan.Isolation, plan.PowerManagement, []nodeconfig.Level{plan.Recovery}) {
		for _, m := range level {
			if m.Device == nil {
				u.methods[m.Name] = true
			}
		}
	}
}

// rights returns the rights that a controller needs with this configuration. used is nil while the
// configurations of nodes are not known.
func (c *Config) rights(used *uses) []kube.Right {
	var u uses
	if used != nil {
		u = *used
	}
	var all []kube.Right
	add := func(resource schema.GroupResource, namespace string, verbs ...string) {
		all = append(all, kube.RightsOn(resource, namespace, "", verbs...)...)
	}
	evicts := u.methods[nodeconfig.CleanPods] || u.methods[nodeconfig.DetachVolumes]
	fences := v1alpha1.Resource().GroupResource()
	add(corev1.Resource("nodes"), "", "get", "list", "watch", "patch")
	add(corev1.Resource("nodes/status"), "", "patch")
	add(coordinationv1.Resource("leases"), corev1.NamespaceNodeLease, "get", "list", "watch")
	add(fences, "", "get", "list", "watch", "create", "update", "delete")
	fences.Resource += "/status"
	add(fences, "", "update")
	add(corev1.Resource("pods"), "", "get", "list", "delete")
	add(corev1.Resource("pods/status"), "", "patch")
	add(storagev1.Resource("volumeattachments"), "", "list")
	add(corev1.Resource("configmaps"), c.Namespace, "list", "watch")
	if u.secrets {
		add(corev1.Resource("secrets"), c.Namespace, "get")
	}
	if c.Events != nil {
		all = append(all, kube.EventRights(metav1.NamespaceDefault)...) // about Nodes and NodeFences
		all = append(all, kube.EventRights(c.Namespace)...)             // about the configuration
	}
	if evicts {
		add(corev1.Resource("pods/eviction"), "", "create")
	}
	if u.methods[nodeconfig.DetachVolumes] {
		add(storagev1.Resource("volumeattachments"), "", "delete")
	}
	if u.methods[nodeconfig.DeleteNode] {
		add(corev1.Resource("nodes"), "", "delete")
	}
	if len(c.Storage) > 0 {
		add(corev1.Resource("persistentvolumeclaims"), "", "get")
		add(corev1.Resource("persistentvolumes"), "", "get")
	}
	return all
}
