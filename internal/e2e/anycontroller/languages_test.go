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

// languages are the commands of the same controller, with a command that fails where it cannot run.
// Modules of JavaScript are found beside the script only, so $CLIENT_NODE names a directory with
// node_modules.
var languages = map[string]struct{ interpreter, script, check string }{
	"shell":      {"bash", "shout.sh", "kubectl version --client && jq --version"},
	"Python":     {"/usr/bin/python3", "shout.py", "/usr/bin/python3 -c 'import kubernetes'"},
	"JavaScript": {"node", "shout.mjs", "test -d \"$CLIENT_NODE/node_modules/@kubernetes/client-node\""},
}

// The same controller in three languages. That in shell creates by server-side apply, the others by
// create and update.
func TestForeignLanguages(t *testing.T) {
	for name, language := range languages {
		t.Run(name, func(t *testing.T) {
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", language.check).CombinedOutput(); err != nil {
				t.Skipf("NOT TESTED: %s: %v: %s", language.check, err, out)
			}
			script, err := filepath.Abs(filepath.Join(examples, language.script))
			require.NoError(t, err)
			if modules := os.Getenv("CLIENT_NODE"); name == "JavaScript" {
				content, err := os.ReadFile(script)
				require.NoError(t, err)
				directory := t.TempDir()
				modules = filepath.Join(modules, "node_modules")
				require.NoError(t, os.Symlink(modules, filepath.Join(directory, "node_modules")))
				script = filepath.Join(directory, language.script)
				require.NoError(t, os.WriteFile(script, content, 0o600))
			}
			testLanguage(t, language.interpreter, script)
		})
	}
}

func testLanguage(t *testing.T, command ...string) {
	t.Helper()
	var err error
	admin := &cluster{t: t}
	admin.client, err = dynamicAdmin()
	require.NoError(t, err)
	admin.applied(greetings, filepath.Join(examples, "crd.yaml"))
	c := newCluster(t, program{
		name: "greetings", resources: []schema.GroupVersionResource{greetings},
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
		command: command,
	})
	const objects = 30 // with 6, one ring in four leaves a shard without any
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
	c.createdOnce("configmaps", objects)
}
