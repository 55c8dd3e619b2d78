package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// Object reads the metadata of one object. It returns nil if the user may not.
func (c *Cluster) Object(ctx context.Context, k view.Kind, namespace, name string, rights *Rights,
) (*metav1.PartialObjectMetadata, error) {
	var o *metav1.PartialObjectMetadata
	var err error
	if k.Namespaced {
		o, err = c.Metadata.Resource(k.GroupVersionResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	} else {
		namespace = ""
		o, err = c.Metadata.Resource(k.GroupVersionResource).Get(ctx, name, metav1.GetOptions{})
	}
	if rights.refused(err, right("get", k.GroupResource(), namespace)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("kubectl-bellwether: get %s %s: %w", k.GroupResource(), name, err)
	}
	return o, nil
}

// RingsOf returns the names of the rings whose labels an object carries, sorted.
func RingsOf(o metav1.Object) []string {
	var rings []string
	for key := range o.GetLabels() {
		for _, prefix := range []string{api.ShardLabel(""), api.SealLabel("")} {
			if ring, ok := strings.CutPrefix(key, prefix); ok && !slices.Contains(rings, ring) {
				rings = append(rings, ring)
			}
		}
	}
	slices.Sort(rings)
	return rings
}

// NamespaceOf returns the namespace with the Leases of a ring: the preferred one if it has any,
// otherwise the only one.
func (c *Cluster) NamespaceOf(ctx context.Context, ring, preferred string, rights *Rights) (string, error) {
	selector := shardstate.Selector(ring).String()
	var ignored Rights // the right for all namespaces is enough
	here, err := c.Leases(ctx, preferred, selector, &ignored)
	if err != nil || len(here) > 0 {
		return preferred, err
	}
	all, err := c.Leases(ctx, "", selector, &ignored)
	if err != nil {
		return "", err
	}
	var found []string
	for _, l := range all {
		if !slices.Contains(found, l.Namespace) {
			found = append(found, l.Namespace)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		slices.Sort(found)
		return "", fmt.Errorf("kubectl-bellwether: ring %s has Leases in several namespaces: name one of %q with "+
			"--ring-namespace", ring, found)
	}
	for _, r := range ignored.missing {
		if r.Namespace == "" {
			rights.refused(apierrors.NewForbidden(coordinationv1.Resource("leases"), "", nil), r)
		}
	}
	return preferred, nil
}

// Explain returns who may work on an object of a ring, and why. It needs the rights to read the
// object, the Leases and, to be exact while objects move, the ring's history.
func (c *Cluster) Explain(ctx context.Context, q RingQuery, k view.Kind,
	o *metav1.PartialObjectMetadata, rights *Rights,
) (view.Explanation, error) {
	r, err := c.Members(ctx, q, rights)
	if err != nil {
		return view.Explanation{}, err
	}
	resource := api.Resource{GVR: k.GroupVersionResource, Key: q.Key}
	root, rootKind := o, k
	if parent, kind, err := c.rootOf(ctx, q.Ring, k, o, rights); err != nil {
		return view.Explanation{}, err
	} else if parent != nil {
		root, rootKind = parent, kind
		resource.GVR = kind.GroupVersionResource
		resource.Children = []schema.GroupVersionResource{k.GroupVersionResource}
	}
	if rights.Err() != nil {
		return view.Explanation{}, nil
	}
	s, err := sharder.New(c.Kube, c.Metadata, c.Mapper, sharder.Config{
		Ring: q.Ring, Namespace: q.Namespace, Resources: []api.Resource{resource},
	})
	if err != nil {
		return view.Explanation{}, err
	}
	x, err := s.Explain(ctx, api.ObjectRef{GVR: k.GroupVersionResource, Namespace: o.Namespace, Name: o.Name})
	if err != nil {
		return view.Explanation{}, err
	}
	return view.ExplanationOf(x, view.ObjectOf(q.Ring, rootKind, root, q.Key), r, c.Now()), nil
}

// rootOf returns the root of an object without a record: its controller, or without one its owner, in
// the ring. It returns nil unless there is exactly one.
func (c *Cluster) rootOf(ctx context.Context, ring string, k view.Kind, o *metav1.PartialObjectMetadata,
	rights *Rights,
) (root *metav1.PartialObjectMetadata, kind view.Kind, err error) {
	if _, recorded := o.Labels[api.SealLabel(ring)]; recorded {
		return nil, view.Kind{}, nil
	}
	owners := o.OwnerReferences
	if controller := metav1.GetControllerOf(o); controller != nil {
		owners = []metav1.OwnerReference{*controller}
	}
	for _, owner := range owners {
		found, of, err := c.ownerIn(ctx, ring, k, o.Namespace, owner, rights)
		switch {
		case err != nil, found != nil && root != nil:
			return nil, view.Kind{}, err
		case found != nil:
			root, kind = found, of
		}
	}
	return root, kind, nil
}

// ownerIn returns the owner that a reference of an object names if it is in the ring, otherwise nil.
func (c *Cluster) ownerIn(ctx context.Context, ring string, k view.Kind, namespace string,
	owner metav1.OwnerReference, rights *Rights,
) (*metav1.PartialObjectMetadata, view.Kind, error) {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return nil, view.Kind{}, nil // it is owned by nothing that exists
	}
	m, err := c.Mapper.RESTMapping(gv.WithKind(owner.Kind).GroupKind(), gv.Version)
	if err != nil {
		return nil, view.Kind{}, nil
	}
	kind, err := c.kindFor(m.Resource)
	if err != nil {
		return nil, view.Kind{}, err
	}
	parent, err := c.Object(ctx, kind, namespace, owner.Name, rights)
	if apierrors.IsNotFound(err) || parent == nil && err == nil {
		return nil, view.Kind{}, nil
	}
	if err != nil {
		return nil, view.Kind{}, err
	}
	if parent.UID != owner.UID || !slices.Contains(RingsOf(parent), ring) ||
		kind.GroupResource() == k.GroupResource() {
		return nil, view.Kind{}, nil
	}
	return parent, kind, nil
}
