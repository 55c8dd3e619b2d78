package anycontroller_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// A handover rolls out no Pods of an operator that copies labels and annotations, because it does not see those of
// the ring. It would if it saw them.
func TestCopiedLabels(t *testing.T) {
	t.Run("hidden", func(t *testing.T) {
		assert.Zero(t, rollouts(t, 20))
	})
	t.Run("shown", func(t *testing.T) {
		assert.Positive(t, rollouts(t, 2, "--show-marks"))
	})
}

// rollouts returns how often the Pods of an operator's Deployments would have been rolled out by so many handovers.
func rollouts(t *testing.T, handovers int, flags ...string) int {
	t.Helper()
	path, err := shared.Program(t.Context(), "./copier")
	require.NoError(t, err)
	c := newCluster(t, program{
		name: "copier", resources: []schema.GroupVersionResource{secrets},
		children: []schema.GroupVersionResource{deployments}, flags: append(flags, "--quiet", "100ms"),
		rights: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}},
			{
				APIGroups: []string{"apps"}, Resources: []string{"deployments"},
				Verbs: []string{"get", "create", "update"},
			},
		},
		command: []string{path},
	})
	const objects = 10
	for i := range objects {
		_, err := c.client.Resource(secrets).Namespace(c.namespace).Create(t.Context(), &unstructured.Unstructured{
			Object: map[string]any{
				"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
					"name": "root-" + strconv.Itoa(i), "labels": map[string]any{"app": "x"},
				},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	c.start("a")
	c.start("b")
	c.among("a", "b")
	for i := range handovers {
		from, to := "a", "b"
		if i%2 > 0 {
			from, to = to, from
		}
		require.NoError(t, c.drain(t.Context(), to, false))
		require.NoError(t, c.drain(t.Context(), from, true))
		c.until(fmt.Sprintf("handover %d to %s", i+1, to), func() string {
			with := map[string]int{}
			for _, d := range c.list(deployments) {
				with[d.GetLabels()["replica"]]++
			}
			if with[to] < objects {
				return fmt.Sprint("Deployments were written by ", with)
			}
			return ""
		})
	}
	c.judged()
	c.createdOnce(deployments, objects)
	changes := 0
	for _, d := range c.list(deployments) {
		changes += int(d.GetGeneration()) - 1 // the API server counts changes of specification and annotations
	}
	return changes
}

// drain has a shard give up its objects, or take some again.
func (c *cluster) drain(ctx context.Context, shard string, drained bool) error {
	value := "null"
	if drained {
		value = `"0"`
	}
	_, err := c.client.Resource(leases).Namespace(c.namespace).Patch(ctx, shard, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, shardlease.WeightAnnotation, value),
		metav1.PatchOptions{})
	return err
}
