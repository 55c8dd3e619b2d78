package anycontroller_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// language is the command of a controller of Greetings, with a command that fails where it cannot run.
type language struct{ name, interpreter, script, check string }

var shell = language{"shell", "bash", "shout.sh", "kubectl version --client && jq --version"}

// languages are those of the same controller. That in shell creates by server-side apply, the others
// by create and update.
var languages = []language{
	shell,
	{"Python", "/usr/bin/python3", "shout.py", "/usr/bin/python3 -c 'import kubernetes'"},
	// Modules of JavaScript are found beside the script only, so CLIENT_NODE names a directory with them.
	{"JavaScript", "node", "shout.mjs", `test -d "$CLIENT_NODE/node_modules/@kubernetes/client-node"`},
}

// command returns the command, or skips the test.
func (l language) command(t *testing.T) []string {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", l.check).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: %s: %v: %s", l.check, err, out)
	}
	content, err := os.ReadFile(filepath.Join(examples, l.script))
	require.NoError(t, err)
	directory := t.TempDir()
	script := filepath.Join(directory, l.script)
	require.NoError(t, os.WriteFile(script, content, 0o600))
	if modules := os.Getenv("CLIENT_NODE"); modules != "" {
		modules = filepath.Join(modules, "node_modules")
		require.NoError(t, os.Symlink(modules, filepath.Join(directory, "node_modules")))
	}
	return []string{l.interpreter, script}
}

// greeters is a cluster of controllers of Greetings.
type greeters struct {
	*cluster
	objects int
}

func newGreeters(t *testing.T, l language, objects int) greeters {
	t.Helper()
	command := l.command(t)
	admin := &cluster{t: t}
	var err error
	admin.client, err = dynamicAdmin()
	require.NoError(t, err)
	admin.applied(greetings, filepath.Join(examples, "crd.yaml"))
	g := greeters{newCluster(t, program{
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
	}), objects}
	for i := range objects {
		_, err := g.client.Resource(greetings).Namespace(g.namespace).Create(t.Context(), &unstructured.Unstructured{
			Object: map[string]any{
				"apiVersion": greetings.GroupVersion().String(), "kind": "Greeting",
				"metadata": map[string]any{"name": fmt.Sprintf("g-%02d", i)}, "spec": map[string]any{"text": "one"},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	return g
}

// say changes the text of all Greetings.
func (g greeters) say(text string) {
	g.t.Helper()
	for i := range g.objects {
		_, err := g.client.Resource(greetings).Namespace(g.namespace).Patch(g.t.Context(), fmt.Sprintf("g-%02d", i),
			types.MergePatchType, fmt.Appendf(nil, `{"spec":{"text":%q}}`, text), metav1.PatchOptions{})
		require.NoError(g.t, err)
	}
}

// reconciled waits until each Greeting with this text has its ConfigMap and its status.
func (g greeters) reconciled(text string) {
	g.t.Helper()
	want := strings.ToUpper(text)
	g.until("reconciled", func() string {
		done := 0
		for _, o := range g.list(configMaps) {
			if said, _, _ := unstructured.NestedString(o.Object, "data", "text"); said == want {
				done++
			}
		}
		for _, o := range g.list(greetings) {
			if said, _, _ := unstructured.NestedString(o.Object, "status", "shout"); said == want {
				done++
			}
		}
		if done < 2*g.objects {
			return fmt.Sprintf("%d of %d are reconciled", done, 2*g.objects)
		}
		return ""
	})
}

// The same controller in three languages, each in three replicas.
func TestForeignLanguages(t *testing.T) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			g := newGreeters(t, l, 30) // of 6, hashing leaves a shard without any in one ring of four
			g.start("a")
			g.start("b")
			g.start("c")
			g.among("a", "b", "c")
			g.reconciled("one")
			require.NoError(t, g.replicas["b"].Kill())
			g.among("a", "c")
			g.say("two")
			g.reconciled("two")
			g.judged()
			g.createdOnce(configMaps, g.objects+1) // and the history of the ring
		})
	}
}

// The API server answers what a rehearsal writes, and stores nothing of it.
func TestForeignRehearsal(t *testing.T) {
	g := newGreeters(t, shell, 3)
	g.program.flags = []string{"--dry-run", "--namespaces", g.namespace, "--selector", "!unwanted"}
	r := g.start("a")
	for _, resource := range []string{"configmaps", "greetings.example.bellwether.dev"} {
		written := fmt.Sprintf("{resource=%q,verb=\"patch\",outcome=\"passed\"}", resource)
		g.until("written to "+resource, func() string {
			if metrics := r.metrics(); !strings.Contains(metrics, written) {
				return metrics
			}
			return ""
		})
	}
	for _, o := range g.list(configMaps) {
		assert.NotContains(t, o.GetName(), "shout-")
	}
	for _, o := range g.list(greetings) {
		assert.Empty(t, o.Object["status"], o.GetName())
	}
}
