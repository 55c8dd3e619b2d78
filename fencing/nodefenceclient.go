package fencing

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// nodeFenceClient reads and writes NodeFences. Each write applies to the version that was read, so
// a later write by an admin or another controller makes it a conflict.
type nodeFenceClient struct{ client dynamic.ResourceInterface }

func newNodeFenceClient(client dynamic.Interface) nodeFenceClient {
	return nodeFenceClient{client: client.Resource(v1alpha1.Resource())}
}

// absent reports whether the API server answered that a node has no NodeFence.
func absent(err error, node string) bool {
	return kube.Absent(err, v1alpha1.Resource().GroupResource(), v1alpha1.Name(node))
}

// get returns the NodeFence of a node.
func (r nodeFenceClient) get(ctx context.Context, node string) (*v1alpha1.NodeFence, error) {
	u, err := r.client.Get(ctx, v1alpha1.Name(node), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return typed(u)
}

// create starts the fence of a node. The error is AlreadyExists if another request was first.
func (r nodeFenceClient) create(
	ctx context.Context,
	node string,
	annotations map[string]string,
) (*v1alpha1.NodeFence, error) {
	f := &v1alpha1.NodeFence{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.Kind().Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name:        v1alpha1.Name(node),
			Finalizers:  []string{v1alpha1.Finalizer},
			Annotations: annotations,
		},
		Node: node,
	}
	u, err := untyped(f)
	if err != nil {
		return nil, err
	}
	created, err := r.client.Create(ctx, u, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return typed(created)
}

// writeStatus writes the status of f if f is still the version that was read, and returns the
// result.
func (r nodeFenceClient) writeStatus(ctx context.Context, f *v1alpha1.NodeFence) (*v1alpha1.NodeFence, error) {
	u, err := untyped(f)
	if err != nil {
		return nil, err
	}
	written, err := r.client.UpdateStatus(ctx, u, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return typed(written)
}

// setFinalizer adds or removes the finalizer.
func (r nodeFenceClient) setFinalizer(
	ctx context.Context,
	f *v1alpha1.NodeFence,
	present bool,
) (*v1alpha1.NodeFence, error) {
	f = f.DeepCopy()
	f.Finalizers = slices.DeleteFunc(f.Finalizers, func(name string) bool { return name == v1alpha1.Finalizer })
	if present {
		f.Finalizers = append(f.Finalizers, v1alpha1.Finalizer)
	}
	return r.update(ctx, f)
}

// annotate sets an annotation of f.
func (r nodeFenceClient) annotate(
	ctx context.Context,
	f *v1alpha1.NodeFence,
	key, value string,
) (*v1alpha1.NodeFence, error) {
	f = f.DeepCopy()
	metav1.SetMetaDataAnnotation(&f.ObjectMeta, key, value)
	return r.update(ctx, f)
}

// dropAnnotation removes an annotation of f.
func (r nodeFenceClient) dropAnnotation(
	ctx context.Context,
	f *v1alpha1.NodeFence,
	key string,
) (*v1alpha1.NodeFence, error) {
	f = f.DeepCopy()
	delete(f.Annotations, key)
	return r.update(ctx, f)
}

// update writes f except for its status.
func (r nodeFenceClient) update(ctx context.Context, f *v1alpha1.NodeFence) (*v1alpha1.NodeFence, error) {
	u, err := untyped(f)
	if err != nil {
		return nil, err
	}
	updated, err := r.client.Update(ctx, u, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return typed(updated)
}

// delete deletes f if it is still the version that was read. The finalizer delays the deletion.
func (r nodeFenceClient) delete(ctx context.Context, f *v1alpha1.NodeFence) error {
	return r.client.Delete(
		ctx,
		f.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &f.UID, ResourceVersion: &f.ResourceVersion}},
	)
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
