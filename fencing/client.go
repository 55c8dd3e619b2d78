package fencing

import (
	"cmp"
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// client reads and writes what concerns one node. Each write of a NodeFence applies to the version
// that was read, so a later write by an admin or another controller makes it a conflict.
type client struct {
	kube   kubernetes.Interface
	fences dynamic.ResourceInterface
}

// node reads a Node consistently.
func (c client) node(ctx context.Context, name string) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	n, err := c.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	return n, kube.Named(n, name, err)
}

// renewal returns a value that changes with each renewal of a node's Lease.
func (c client) renewal(ctx context.Context, node string) (renewal string, err error) {
	lease, err := c.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{})
	err = kube.Named(lease, node, err)
	switch {
	case kube.Absent(err, coordinationv1.Resource("leases"), node):
		return "", nil
	case err != nil:
		return "", err
	case lease.Spec.RenewTime != nil:
		renewal = string(lease.UID) + lease.Spec.RenewTime.String()
	}
	return renewal, nil
}

// outside returns a node for changes that belong to no incident.
func (c client) outside(n *corev1.Node) (*cluster.Node, error) {
	return cluster.New(c.kube, cluster.Config{Name: n.Name, UID: n.UID, Incident: 1})
}

// absent reports whether the API server answered that a node has no NodeFence.
func absent(err error, node string) bool {
	return kube.Absent(err, v1alpha1.Resource().GroupResource(), v1alpha1.Name(node))
}

// fence reads the NodeFence of a node.
func (c client) fence(ctx context.Context, node string) (*v1alpha1.NodeFence, error) {
	return answered(c.fences.Get(ctx, v1alpha1.Name(node), metav1.GetOptions{}))
}

// create starts the fence of a node. The error is AlreadyExists if another request was first.
func (c client) create(ctx context.Context, node string, annotations map[string]string) (*v1alpha1.NodeFence, error) {
	u, err := untyped(&v1alpha1.NodeFence{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.Kind().Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name:        v1alpha1.Name(node),
			Finalizers:  []string{v1alpha1.Finalizer},
			Annotations: annotations,
		},
		Node: node,
	})
	if err != nil {
		return nil, err
	}
	return answered(c.fences.Create(ctx, u, metav1.CreateOptions{}))
}

// writeStatus writes the status of f if f is still the version that was read, and returns the
// result.
func (c client) writeStatus(ctx context.Context, f *v1alpha1.NodeFence) (*v1alpha1.NodeFence, error) {
	u, err := untyped(f)
	if err != nil {
		return nil, err
	}
	return answered(c.fences.UpdateStatus(ctx, u, metav1.UpdateOptions{}))
}

// update changes the metadata of f, and returns the result.
func (c client) update(
	ctx context.Context, f *v1alpha1.NodeFence, change func(*metav1.ObjectMeta),
) (*v1alpha1.NodeFence, error) {
	f = f.DeepCopy()
	change(&f.ObjectMeta)
	u, err := untyped(f)
	if err != nil {
		return nil, err
	}
	return answered(c.fences.Update(ctx, u, metav1.UpdateOptions{}))
}

// delete deletes f if it is still the version that was read. The finalizer delays the deletion.
func (c client) delete(ctx context.Context, f *v1alpha1.NodeFence) error {
	read := metav1.Preconditions{UID: &f.UID, ResourceVersion: &f.ResourceVersion}
	return c.fences.Delete(ctx, f.Name, metav1.DeleteOptions{Preconditions: &read})
}

func answered(u *unstructured.Unstructured, err error) (*v1alpha1.NodeFence, error) {
	if err != nil {
		return nil, err
	}
	return typed(u)
}

func typed(u *unstructured.Unstructured) (*v1alpha1.NodeFence, error) {
	f := &v1alpha1.NodeFence{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, f, false)
	if err = cmp.Or(err, whole(&f.Status)); err != nil {
		return nil, fmt.Errorf("NodeFence %s: %w", u.GetName(), err)
	}
	return f, nil
}

// whole returns an error about a status that no controller has written. A fence cannot continue
// from it until it is repaired.
func whole(s *v1alpha1.Status) error {
	for i, e := range s.Evidence {
		if len(e.Readings) == 0 {
			return fmt.Errorf("status.evidence[%d].readings: must not be empty (device %q)", i, e.Device)
		}
	}
	for i, d := range s.Devices {
		if d.State == v1alpha1.DeviceOffIntent && d.Op == nil {
			return fmt.Errorf("status.devices[%d].op: must be there with state %s (device %q)", i, d.State, d.Device)
		}
	}
	return nil
}

func untyped(f *v1alpha1.NodeFence) (*unstructured.Unstructured, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(f)
	if err != nil {
		return nil, fmt.Errorf("NodeFence %s: %w", f.Name, err)
	}
	return &unstructured.Unstructured{Object: object}, nil
}
