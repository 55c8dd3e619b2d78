package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// excludeLabel is the label by which the default configuration of a fencer leaves a node alone,
// with any value but "false".
const excludeLabel = "fencing.bellwether.dev/exclude"

// FenceRights returns the rights that a fence needs.
func FenceRights() []Right {
	fences := v1alpha1.Resource().GroupResource()
	return append(kube.RightsOn(fences, "", "", "get", "create"), right("get", corev1.Resource("nodes"), ""))
}

// FenceObstacle returns why the fence of a node must not begin now, or "" if it may.
func (c *Cluster) FenceObstacle(ctx context.Context, node string) (string, error) {
	n, err := c.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	err = kube.Named(n, node, err)
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("there is no node %s", node), nil
	}
	if err != nil {
		return "", fmt.Errorf("kubectl-bellwether: get Node %s: %w", node, err)
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return fmt.Sprintf("node %s is Ready: a fencer would end its fence at once", node), nil
		}
	}
	if value, ok := n.Labels[excludeLabel]; ok && value != "false" {
		return fmt.Sprintf("node %s has the label %s=%s: remove it first", node, excludeLabel, value), nil
	}
	f, err := c.fence(ctx, node)
	if err != nil || f == nil {
		return "", err
	}
	text := fmt.Sprintf("node %s has a fence, in phase %s", node, f.Phase)
	if f.Ended {
		text += fmt.Sprintf(". To restart it: kubectl annotate nodefence %s %s=%d", v1alpha1.Name(node),
			v1alpha1.AnnotationRestart, f.Incident)
	}
	return text, nil
}

// fence reads the NodeFence of a node. It returns nil if the node has no NodeFence.
func (c *Cluster) fence(ctx context.Context, node string) (*view.Fence, error) {
	u, err := c.Dynamic.Resource(v1alpha1.Resource()).Get(ctx, v1alpha1.Name(node), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("kubectl-bellwether: get NodeFence of node %s: %w", node, err)
	}
	var f v1alpha1.NodeFence
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &f); err != nil {
		return nil, fmt.Errorf("kubectl-bellwether: NodeFence %s: %w", u.GetName(), err)
	}
	v := view.FenceOf(&f)
	return &v, nil
}

// Fence creates the NodeFence of a node, which starts its fence. It is an error if the NodeFence
// exists by now, because its creation is the lock, so no fence begins twice. The node may be Ready
// by now, but the fencer checks it before each act and ends the fence of a node that works.
func (c *Cluster) Fence(ctx context.Context, node string) error {
	f := &v1alpha1.NodeFence{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.Name(node), Finalizers: []string{v1alpha1.Finalizer}}, Node: node,
	}
	f.SetGroupVersionKind(v1alpha1.Kind())
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(f)
	if err != nil {
		return fmt.Errorf("kubectl-bellwether: fence: %w", err)
	}
	_, err = c.Dynamic.Resource(v1alpha1.Resource()).Create(ctx, &unstructured.Unstructured{Object: content},
		metav1.CreateOptions{FieldManager: "kubectl-bellwether"})
	if err != nil {
		return fmt.Errorf("kubectl-bellwether: create NodeFence of node %s: %w", node, err)
	}
	return nil
}
