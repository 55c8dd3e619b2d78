package anycontroller_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// examples are three controllers of some 50 lines each.
const examples = "../../../examples/anycontroller"

var greetings = schema.GroupVersionResource{Group: "example.bellwether.dev", Version: "v1", Resource: "greetings"}

// newShell returns a cluster with some Greetings, for a controller in shell, with kubectl: it creates by server-side
// apply.
func newShell(t *testing.T, objects int) *cluster {
	script, err := filepath.Abs(filepath.Join(examples, "shout.sh"))
	require.NoError(t, err)
	for _, tool := range []string{"bash", "kubectl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("NOT TESTED: ", err)
		}
	}
	if _, err := os.Stat(script); err != nil {
		t.Skip("NOT TESTED: ", err)
	}
	admin := &cluster{t: t}
	admin.client, err = dynamicAdmin()
	require.NoError(t, err)
	admin.applied(greetings, filepath.Join(examples, "crd.yaml"))
	c := newCluster(t, program{
		name: "shell", resources: []schema.GroupVersionResource{greetings},
		children: []schema.GroupVersionResource{configMaps},
		rights: []rbacv1.PolicyRule{
			{APIGroups: []string{greetings.Group}, Resources: []string{"greetings"}, Verbs: []string{"get", "list", "watch"}},
			{
				APIGroups: []string{greetings.Group}, Resources: []string{"greetings/status"},
				Verbs: []string{"get", "update", "patch"},
			},
			{
				APIGroups: []string{""}, Resources: []string{"configmaps"},
				Verbs: []string{"get", "list", "watch", "create", "update", "patch"},
			},
		},
		command: []string{"bash", script},
	})
	for i := range objects {
		_, err := c.client.Resource(greetings).Namespace(c.namespace).Create(t.Context(), &unstructured.Unstructured{
			Object: map[string]any{
				"apiVersion": greetings.GroupVersion().String(), "kind": "Greeting",
				"metadata": map[string]any{"name": fmt.Sprintf("g-%02d", i)}, "spec": map[string]any{"text": "one"},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	return c
}

// The API server answers what a rehearsal writes, and stores nothing of it.
func TestForeignRehearsal(t *testing.T) {
	const objects = 3
	c := newShell(t, objects)
	c.program.flags = []string{"--dry-run", "--namespaces", c.namespace, "--selector", "!unwanted"}
	r := c.start("a")
	for _, resource := range []string{"configmaps", "greetings.example.bellwether.dev"} {
		written := fmt.Sprintf("{resource=%q,verb=\"patch\",outcome=\"passed\"}", resource)
		c.until("written to "+resource, func() string {
			if metrics := r.metrics(); !strings.Contains(metrics, written) {
				return metrics
			}
			return ""
		})
	}
	for _, o := range c.list(configMaps) {
		assert.NotContains(t, o.GetName(), "shout-")
	}
	for _, o := range c.list(greetings) {
		assert.Empty(t, o.Object["status"], o.GetName())
	}
}

func TestForeignShell(t *testing.T) {
	const objects = 12
	c := newShell(t, objects)
	say := func(text string) {
		for i := range objects {
			_, err := c.client.Resource(greetings).Namespace(c.namespace).Patch(t.Context(), fmt.Sprintf("g-%02d", i),
				types.MergePatchType, fmt.Appendf(nil, `{"spec":{"text":%q}}`, text), metav1.PatchOptions{})
			require.NoError(t, err)
		}
	}
	reconciled := func(text string) {
		c.until("reconciled", func() string {
			done := 0
			for _, o := range c.list(configMaps) {
				if said, _, _ := unstructured.NestedString(o.Object, "data", "text"); said == strings.ToUpper(text) {
					done++
				}
			}
			for _, o := range c.list(greetings) {
				if shout, _, _ := unstructured.NestedString(o.Object, "status", "shout"); shout == strings.ToUpper(text) {
					done++
				}
			}
			if done < 2*objects {
				return fmt.Sprintf("%d of %d are reconciled", done, 2*objects)
			}
			return ""
		})
	}
	c.start("a")
	c.start("b")
	c.start("c")
	with := func(names ...string) { // hashing often leaves a shard with few of so few
		c.until("distributed", func() string {
			for shard := range c.shares() {
				if !slices.Contains(names, shard) {
					return "some are with " + shard
				}
			}
			return ""
		})
	}
	with("a", "b", "c")
	reconciled("one")
	require.NoError(t, c.replicas["b"].Kill())
	with("a", "c")
	say("two")
	reconciled("two")
	c.judged()
}
