package anycontroller_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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

// A controller in shell, with kubectl: it creates by server-side apply.
func TestForeignShell(t *testing.T) {
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
			{
				APIGroups: []string{greetings.Group}, Resources: []string{"greetings"},
				Verbs: []string{"get", "list", "watch"},
			},
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
	const objects = 6
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
				shout, _, _ := unstructured.NestedString(o.Object, "status", "shout")
				if shout == strings.ToUpper(text) {
					done++
				}
			}
			if done < 2*objects {
				return fmt.Sprintf("%d of %d are reconciled", done, 2*objects)
			}
			return ""
		})
	}
	for i := range objects {
		_, err := c.client.Resource(greetings).Namespace(c.namespace).Create(t.Context(), &unstructured.Unstructured{
			Object: map[string]any{
				"apiVersion": greetings.GroupVersion().String(), "kind": "Greeting",
				"metadata": map[string]any{"name": fmt.Sprintf("g-%02d", i)}, "spec": map[string]any{"text": "one"},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	c.start("a")
	c.start("b")
	c.start("c")
	c.among("a", "b", "c")
	reconciled("one")
	require.NoError(t, c.replicas["b"].Kill())
	c.among("a", "c")
	say("two")
	reconciled("two")
	c.judged()
}
