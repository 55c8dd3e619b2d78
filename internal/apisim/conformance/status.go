package conformance

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// statusCases are about the status as a subresource. Nodes stand for all that have one.
func statusCases() []Case {
	return []Case{
		{"status: an update of the object keeps it", func(t *testing.T, c *Clients) {
			node := c.createNode(t)
			node.Spec.Unschedulable, node.Status.NodeInfo.BootID = true, "2"
			updated, err := c.Typed.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{})
			require.NoError(t, err)
			assert.True(t, updated.Spec.Unschedulable)
			assert.Equal(t, "1", updated.Status.NodeInfo.BootID)
		}},
		{"status: an update of it keeps the rest", func(t *testing.T, c *Clients) {
			node := c.createNode(t)
			node.Spec.Unschedulable, node.Status.NodeInfo.BootID = true, "2"
			updated, err := c.Typed.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
			require.NoError(t, err)
			assert.False(t, updated.Spec.Unschedulable)
			assert.Equal(t, "2", updated.Status.NodeInfo.BootID)
			assert.NotEqual(t, node.ResourceVersion, updated.ResourceVersion)
		}},
		{"status: an update of it on an earlier version is refused", func(t *testing.T, c *Clients) {
			node := c.createNode(t)
			later := node.DeepCopy()
			later.Spec.Unschedulable = true
			_, err := c.Typed.CoreV1().Nodes().Update(t.Context(), later, metav1.UpdateOptions{})
			require.NoError(t, err)
			node.Status.NodeInfo.BootID = "2"
			_, err = c.Typed.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
			refused(t, err, 409, metav1.StatusReasonConflict)
		}},
		{"status: an update of it on another object is refused", func(t *testing.T, c *Clients) {
			node := c.createNode(t)
			node.UID = "00000000-0000-4000-8000-00000000ffff"
			_, err := c.Typed.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
			refused(t, err, 409, metav1.StatusReasonConflict)
		}},
		{"status: of what is not there is not found", func(t *testing.T, c *Clients) {
			node := newNode(t)
			_, err := c.Typed.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
			refused(t, err, 404, metav1.StatusReasonNotFound)
		}},
		{"status: a patch of it keeps the rest", func(t *testing.T, c *Clients) {
			node := c.createNode(t)
			patch := []byte(`{"spec":{"unschedulable":true},"status":{"nodeInfo":{"bootID":"2"}}}`)
			updated, err := c.Typed.CoreV1().Nodes().Patch(t.Context(), node.Name, types.MergePatchType, patch,
				metav1.PatchOptions{}, "status")
			require.NoError(t, err)
			assert.False(t, updated.Spec.Unschedulable)
			assert.Equal(t, "2", updated.Status.NodeInfo.BootID)
		}},
		{"status: a patch of the object keeps it", func(t *testing.T, c *Clients) {
			node := c.createNode(t)
			patch := []byte(`{"spec":{"unschedulable":true},"status":{"nodeInfo":{"bootID":"2"}}}`)
			updated, err := c.Typed.CoreV1().Nodes().Patch(t.Context(), node.Name, types.MergePatchType, patch,
				metav1.PatchOptions{})
			require.NoError(t, err)
			assert.True(t, updated.Spec.Unschedulable)
			assert.Equal(t, "1", updated.Status.NodeInfo.BootID)
		}},
		{"status: a JSON patch of the object tests the version", func(t *testing.T, c *Clients) {
			node := c.createNode(t)
			patch := []byte(`[{"op":"test","path":"/metadata/resourceVersion","value":"` + node.ResourceVersion + `"},
				{"op":"add","path":"/spec/taints","value":[{"key":"example.com/a","effect":"NoSchedule"}]}]`)
			updated, err := c.Typed.CoreV1().Nodes().Patch(t.Context(), node.Name, types.JSONPatchType, patch,
				metav1.PatchOptions{})
			require.NoError(t, err)
			assert.Equal(t, []corev1.Taint{{Key: "example.com/a", Effect: corev1.TaintEffectNoSchedule}},
				updated.Spec.Taints)
			_, err = c.Typed.CoreV1().Nodes().Patch(t.Context(), node.Name, types.JSONPatchType, patch,
				metav1.PatchOptions{})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"select: Pods by the node they are on", func(t *testing.T, c *Clients) {
			pods := c.Typed.CoreV1().Pods(c.Namespace)
			onNode := metav1.ListOptions{FieldSelector: "spec.nodeName=" + unique(t)}
			watched, err := pods.Watch(t.Context(), onNode)
			require.NoError(t, err)
			defer watched.Stop()
			for suffix, node := range map[string]string{"-a": unique(t), "-b": unique(t) + "-other"} {
				_, err := pods.Create(t.Context(), &corev1.Pod{
					ObjectMeta: objectMeta(t, suffix, nil),
					Spec: corev1.PodSpec{
						NodeName:   node,
						Containers: []corev1.Container{{Name: "c", Image: "example.com/image"}},
					},
				}, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			list, err := c.Typed.CoreV1().Pods("").List(t.Context(), onNode)
			require.NoError(t, err)
			require.Len(t, list.Items, 1)
			assert.Equal(t, unique(t)+"-a", list.Items[0].Name)
			event := <-watched.ResultChan()
			assert.Equal(t, watch.Added, event.Type)
			assert.Equal(t, list.Items[0].UID, event.Object.(*corev1.Pod).UID)
		}},
	}
}

func newNode(t *testing.T) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: objectMeta(t, "", nil),
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "1"}},
	}
}

func (c *Clients) createNode(t *testing.T) *corev1.Node {
	t.Helper()
	created, err := c.Typed.CoreV1().Nodes().Create(t.Context(), newNode(t), metav1.CreateOptions{})
	require.NoError(t, err)
	return created
}
