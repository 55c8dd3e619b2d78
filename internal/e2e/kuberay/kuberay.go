// Package kuberay has what tests with KubeRay's operator share. The API server makes the names of its Pods, so nothing
// but its caches keeps it from creating one twice.
package kuberay

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// The operator's module, and the version of it that is tested.
const (
	Module  = "github.com/ray-project/kuberay/ray-operator"
	Version = "v1.5.0"
)

// MaxWorkers is how many workers a RayCluster may have.
const MaxWorkers = 100

// Resource returns that of RayClusters.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}
}

// RayClusters are those of a namespace.
type RayClusters struct {
	Client    dynamic.Interface
	Namespace string
}

// Name is that of a RayCluster that Create creates.
func Name(i int) string { return fmt.Sprintf("ray-%02d", i) }

// Create creates RayClusters with one worker each, whose Pods fit on no node.
func (c RayClusters) Create(ctx context.Context, n int) error {
	group := func(fields map[string]any) map[string]any {
		fields["rayStartParams"] = map[string]any{}
		fields["template"] = map[string]any{"spec": map[string]any{
			"nodeSelector": map[string]any{"node": "none"},
			"containers":   []any{map[string]any{"name": "ray", "image": "rayproject/ray:2.46.0"}},
		}}
		return fields
	}
	for i := range n {
		_, err := c.objects().Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "ray.io/v1", "kind": "RayCluster",
			"metadata": map[string]any{"name": Name(i)},
			"spec": map[string]any{
				"headGroupSpec": group(map[string]any{}),
				"workerGroupSpecs": []any{group(map[string]any{
					"groupName": "w", "replicas": int64(1), "minReplicas": int64(0), "maxReplicas": int64(MaxWorkers),
				})},
			},
		}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// List returns all RayClusters.
func (c RayClusters) List(ctx context.Context) ([]unstructured.Unstructured, error) {
	list, err := c.objects().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Scale gives a RayCluster this number of workers.
func (c RayClusters) Scale(ctx context.Context, name string, workers int) error {
	_, err := c.objects().Patch(ctx, name, types.JSONPatchType,
		fmt.Appendf(nil, `[{"op":"replace","path":"/spec/workerGroupSpecs/0/replicas","value":%d}]`, workers),
		metav1.PatchOptions{})
	return err
}

// ScaleAll gives each RayCluster this number of workers.
func (c RayClusters) ScaleAll(ctx context.Context, workers int) error {
	all, err := c.List(ctx)
	if err != nil {
		return err
	}
	for _, o := range all {
		if err := c.Scale(ctx, o.GetName(), workers); err != nil {
			return err
		}
	}
	return nil
}

// Unreconciled returns what is not as wanted, or nothing if each RayCluster has one head, its workers, and a service.
func (c RayClusters) Unreconciled(ctx context.Context) (string, error) {
	has := map[string]int{}
	for _, resource := range []string{"pods", "services"} {
		made, err := c.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).
			Namespace(c.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, o := range made.Items {
			if o.GetDeletionTimestamp() == nil {
				has[o.GetLabels()["ray.io/cluster"]+" "+resource]++
			}
		}
	}
	all, err := c.List(ctx)
	if err != nil {
		return "", err
	}
	done := 0
	for _, o := range all {
		if has[o.GetName()+" pods"] == 1+workersOf(o) && has[o.GetName()+" services"] == 1 {
			done++
		}
	}
	if done < len(all) {
		return fmt.Sprintf("%d of %d are reconciled: %v", done, len(all), has), nil
	}
	return "", nil
}

// workersOf returns how many workers a RayCluster wants.
func workersOf(o unstructured.Unstructured) int {
	groups, _, _ := unstructured.NestedSlice(o.Object, "spec", "workerGroupSpecs")
	return int(groups[0].(map[string]any)["replicas"].(int64))
}

func (c RayClusters) objects() dynamic.ResourceInterface {
	return c.Client.Resource(Resource()).Namespace(c.Namespace)
}
