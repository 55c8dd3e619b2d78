package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Leases reads the Leases of a namespace, or of all if it is empty. It returns nil if the user may not.
func (c *Cluster) Leases(ctx context.Context, namespace, selector string, rights *Rights,
) ([]coordinationv1.Lease, error) {
	var all []coordinationv1.Lease
	options := metav1.ListOptions{LabelSelector: selector, Limit: page}
	for {
		list, err := c.Kube.CoordinationV1().Leases(namespace).List(ctx, options)
		err = kube.Versioned(list, err)
		if rights.refused(err, right("list", coordinationv1.Resource("leases"), namespace)) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("kubectl-bellwether: list Leases: %w", err)
		}
		all = append(all, list.Items...)
		if options.Continue = list.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// Status reads everything that is shown of a namespace, or of all if it is empty.
func (c *Cluster) Status(ctx context.Context, namespace string, rights *Rights) (view.Status, error) {
	s := view.Status{Elections: []view.Election{}, Rings: []view.Summary{}}
	leases, err := c.Leases(ctx, namespace, "", rights)
	if err != nil {
		return s, err
	}
	now := c.Now()
	elections := map[string]view.Election{}
	shards := map[string][]view.Shard{}
	var names []string
	for i := range leases {
		l := &leases[i]
		if e, ok := view.ElectionOf(l, now); ok {
			s.Elections = append(s.Elections, e)
			elections[l.Namespace+"/"+l.Name] = e
		}
		name := l.Labels[shardlease.RingLabel]
		if name == "" {
			continue
		}
		shard, err := view.ShardOf(name, l, now)
		if err != nil { // a label that no ring can have
			continue
		}
		at := l.Namespace + "/" + name
		if shards[at] == nil {
			names = append(names, at)
		}
		shards[at] = append(shards[at], shard)
	}
	slices.Sort(names)
	for _, at := range names {
		var election *view.Election
		if e, ok := elections[UsualElection(at)]; ok {
			election = &e
		}
		ns, name, _ := strings.Cut(at, "/")
		s.Rings = append(s.Rings, view.RingOf(ns, name, election, shards[at], nil).Summary())
	}
	locks, err := c.Kube.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: view.LockSelector})
	switch {
	case rights.refused(err, right("list", corev1.Resource("configmaps"), namespace)):
	case err != nil:
		return s, fmt.Errorf("kubectl-bellwether: list ConfigMaps: %w", err)
	default:
		for i := range locks.Items {
			s.Elections = append(s.Elections, view.LockOf(&locks.Items[i]))
		}
	}
	published, err := c.Kube.DiscoveryV1().EndpointSlices(namespace).List(ctx,
		metav1.ListOptions{LabelSelector: view.SliceSelector})
	switch {
	case rights.refused(err, right("list", discoveryv1.Resource("endpointslices"), namespace)):
	case err != nil:
		return s, fmt.Errorf("kubectl-bellwether: list EndpointSlices: %w", err)
	default:
		s.Services = view.ServicesOf(published.Items)
	}
	if s.Flows, err = c.flows(ctx, s); err != nil {
		return s, err
	}
	s.Fences, err = c.Fences(ctx, rights)
	return s, err
}

// flows returns the flows of the namespaces with elections or rings. Few users may list FlowSchemas, so
// without that right there are no flows, and it is not reported as missing.
func (c *Cluster) flows(ctx context.Context, s view.Status) ([]view.Flow, error) {
	var namespaces []string
	for _, e := range s.Elections {
		namespaces = append(namespaces, e.Namespace)
	}
	for _, r := range s.Rings {
		namespaces = append(namespaces, r.Namespace)
	}
	if len(namespaces) == 0 {
		return nil, nil
	}
	list, err := c.Kube.FlowcontrolV1().FlowSchemas().List(ctx, metav1.ListOptions{})
	switch {
	case kube.Forbidden(err), apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("kubectl-bellwether: list FlowSchemas: %w", err)
	}
	slices.Sort(namespaces)
	var flows []view.Flow
	for _, namespace := range slices.Compact(namespaces) {
		flows = append(flows, view.FlowOf(namespace, list.Items))
	}
	return flows, nil
}

// Fences reads all NodeFences. It returns an empty list if the cluster has no such resource.
func (c *Cluster) Fences(ctx context.Context, rights *Rights) ([]view.Fence, error) {
	fences := []view.Fence{}
	list, err := c.Dynamic.Resource(v1alpha1.Resource()).List(ctx, metav1.ListOptions{})
	switch {
	case rights.refused(err, right("list", v1alpha1.Resource().GroupResource(), "")), apierrors.IsNotFound(err):
		return fences, nil
	case err != nil:
		return nil, fmt.Errorf("kubectl-bellwether: list NodeFences: %w", err)
	}
	for _, u := range list.Items {
		var f v1alpha1.NodeFence
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &f); err != nil {
			return nil, fmt.Errorf("kubectl-bellwether: NodeFence %s: %w", u.GetName(), err)
		}
		fences = append(fences, view.FenceOf(&f))
	}
	return fences, nil
}
