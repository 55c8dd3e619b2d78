package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/bellwether-k8s/bellwether/examples/controllerruntime/operator/v1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

const (
	definition = "../operator/v1/example.bellwether.dev_widgets.yaml"
	dozen      = "../operator/objects.yaml"
	// teamDuration is shorter than that of other crews: the objects of a killed shard wait for twice
	// as long.
	teamDuration = 6 * time.Second
)

// team is a cluster of the operator that paints Widgets. It works in all namespaces, and there is one
// definition of Widgets: only one test has a team.
type team struct {
	*cluster
	widgets client.Client
}

func newTeam(t *testing.T) *team {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(v1.AddToScheme(scheme), appsv1.AddToScheme(scheme)))
	widgets, err := client.New(shared.Admin(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	return &team{newCluster(t), widgets}
}

// start starts an operator like the Pod of that name, with the rights of rbac.yaml.
func (o *team) start(name string) *e2e.Process {
	o.t.Helper()
	user := o.namespace + "-" + name
	for namespace, rules := range map[string][]rbacv1.PolicyRule{
		o.namespace: manifest[rbacv1.Role](o.t, "operator/rbac.yaml", "Role").Rules,
		"":          manifest[rbacv1.ClusterRole](o.t, "operator/rbac.yaml", "ClusterRole").Rules,
	} {
		require.NoError(o.t, shared.Grant(o.t.Context(), user, namespace, rules...))
	}
	kubeconfig, err := shared.Kubeconfig(shared.User(user))
	require.NoError(o.t, err)
	program, err := shared.Program(o.t.Context(),
		"github.com/bellwether-k8s/bellwether/examples/controllerruntime/operator", e2e.Race()...)
	require.NoError(o.t, err)
	container := manifest[appsv1.Deployment](o.t, "operator/deployment.yaml", "Deployment").
		Spec.Template.Spec.Containers[0]
	values := map[string]string{
		"metadata.namespace": o.namespace, "metadata.name": name, "metadata.uid": "uid-of-" + name,
	}
	env := []string{"KUBECONFIG=" + kubeconfig}
	for _, v := range container.Env {
		env = append(env, v.Name+"="+values[v.ValueFrom.FieldRef.FieldPath])
	}
	// If a flag occurs twice, the last one counts.
	args := append(container.Args, "-lease-duration="+teamDuration.String(), "-health-address=127.0.0.1:0")
	return o.run(name, e2e.Command{Path: program, Args: args, Env: env})
}

// log returns what an operator has logged.
func (o *team) log(name string) string {
	o.t.Helper()
	text, err := os.ReadFile(o.processes[name].Log())
	require.NoError(o.t, err)
	return string(text)
}

// requireWork waits until an operator holds its lease. If it ends, it is started again, as the
// kubelet does.
func (o *team) requireWork(name string) {
	o.t.Helper()
	p := o.processes[name]
	o.eventually(func() bool {
		select {
		case <-p.Done():
			o.requireExit(p, 1) // and no data race
			require.NoError(o.t, p.Restart())
		default:
		}
		return strings.Contains(o.log(name), `"shard lease acquired"`)
	}, "%s does not work", name)
}

// get asks an operator for a page.
func (o *team) get(name, path string) (status int, body string) {
	o.t.Helper()
	var address string
	for text := range strings.Lines(o.log(name)) {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil && l.Message == "answering probes" {
			address = l.Address
		}
	}
	response, err := http.Get("http://" + address + path)
	require.NoError(o.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(o.t, err)
	return response.StatusCode, string(text)
}

// create creates Widgets.
func (o *team) create(n int) {
	o.t.Helper()
	for range n {
		require.NoError(o.t, o.widgets.Create(o.t.Context(), &v1.Widget{
			ObjectMeta: metav1.ObjectMeta{
				GenerateName: "w-", Namespace: o.namespace, Labels: map[string]string{"team": "a"},
			},
			Spec: v1.WidgetSpec{Colour: "grey"},
		}))
	}
}

// all returns the Widgets.
func (o *team) all() []v1.Widget {
	o.t.Helper()
	var list v1.WidgetList
	require.NoError(o.t, o.widgets.List(o.t.Context(), &list))
	return list.Items
}

// paint wants all Widgets in another colour.
func (o *team) paint(colour string) {
	o.t.Helper()
	for _, w := range o.all() {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"colour":"`+colour+`"}}`))
		require.NoError(o.t, o.widgets.Patch(o.t.Context(), &w, patch))
	}
}

// requirePainted waits until all Widgets have the colours that they are to have.
func (o *team) requirePainted() {
	o.t.Helper()
	o.eventually(func() bool {
		return !slices.ContainsFunc(o.all(), func(w v1.Widget) bool { return w.Status.Colour != w.Spec.Colour })
	}, "not all Widgets are painted")
}

// requireDeployments fails unless each Widget has a Deployment whose Pods have its labels, and were never
// replaced.
func (o *team) requireDeployments() {
	o.t.Helper()
	var list appsv1.DeploymentList
	require.NoError(o.t, o.widgets.List(o.t.Context(), &list, client.InNamespace(o.namespace)))
	of := map[types.UID]appsv1.Deployment{}
	for _, d := range list.Items {
		if owner := metav1.GetControllerOf(&d); owner != nil {
			of[owner.UID] = d
		}
	}
	for _, w := range o.all() {
		if w.Namespace != o.namespace {
			continue
		}
		d := of[w.UID]
		assert.EqualValues(o.t, 1, d.Generation, "%s", w.Name)
		assert.Equal(o.t, w.Labels["team"], d.Spec.Template.Labels["team"])
		assert.Equal(o.t, w.Labels[api.ShardLabel("widgets")], d.Labels[api.ShardLabel("widgets")])
	}
}

// workers returns who has painted the Widgets.
func (o *team) workers() []string {
	o.t.Helper()
	names := map[string]bool{}
	for _, w := range o.all() {
		names[w.Status.Worker] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// requireShards waits until these shards, and no others, have Widgets.
func (o *team) requireShards(names ...string) {
	o.t.Helper()
	o.eventually(func() bool {
		shards := map[string]bool{}
		for _, w := range o.all() {
			shards[w.Labels[api.ShardLabel("widgets")]] = true
		}
		return slices.Equal(slices.Sorted(maps.Keys(shards)), names)
	}, "Widgets are not with %v", names)
}

// requireUndefined waits until the API server serves no Widgets.
func (o *team) requireUndefined() {
	o.t.Helper()
	o.eventually(func() bool {
		err := o.widgets.List(o.t.Context(), &v1.WidgetList{})
		return apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
	}, "Widgets are served")
}

// define applies the definition. The one before it may take a while to go.
func (o *team) define() {
	o.t.Helper()
	o.t.Cleanup(func() { _ = shared.Delete(context.Background(), definition) })
	o.eventually(func() bool {
		err := shared.Apply(o.t.Context(), definition)
		if !apierrors.IsAlreadyExists(err) {
			require.NoError(o.t, err)
		}
		return err == nil
	}, "the definition before does not go")
}

// requireDefined waits until the API server serves Widgets.
func (o *team) requireDefined() {
	o.t.Helper()
	o.eventually(func() bool { return o.widgets.List(o.t.Context(), &v1.WidgetList{}) == nil }, "no Widgets are served")
}

// Widgets are painted by all shards. When one is killed, the others paint its Widgets, too, whose Pods
// are not replaced. A
// process that starts without the definition of Widgets, or becomes the sharder, says what is
// missing, and ends. Others wait for the definition.
func TestOperatorOfACustomResource(t *testing.T) {
	t.Parallel()
	o := newTeam(t)
	o.requireUndefined()
	a := o.start("a")
	o.requireExit(a, 1)
	assert.Contains(t, o.log("a"), "example.bellwether.dev/v1, Resource=widgets is not, is its "+
		"CustomResourceDefinition installed?")

	o.define() // and Pods start at the same moment
	o.start("b")
	o.start("c")
	for _, name := range []string{"a", "b", "c"} {
		o.requireWork(name)
	}
	o.requireDefined()
	require.NoError(t, shared.Apply(t.Context(), dozen))
	o.create(50) // so many that each shard has some
	o.requirePainted()
	o.requireShards("a", "b", "c")
	o.paint("green")
	o.requirePainted()
	assert.Equal(t, []string{"a", "b", "c"}, o.workers())
	status, _ := o.get("c", "/readyz")
	assert.Equal(t, http.StatusOK, status)
	_, metrics := o.get("c", "/metrics")
	assert.Contains(t, metrics, "\nbellwether_shardlease_held 1\n")

	o.kill("c")
	o.create(10)
	o.requirePainted()
	o.requireShards("a", "b")
	o.paint("blue")
	o.requirePainted()
	assert.Equal(t, []string{"a", "b"}, o.workers())
	o.requireDeployments()

	require.NoError(t, shared.Delete(t.Context(), definition))
	o.requireUndefined()
	for _, name := range []string{"a", "b"} {
		o.eventually(func() bool { return strings.Contains(o.log(name), "failed to list *v1.Widget") },
			"%s does not miss the definition", name)
	}
	o.define()
	o.requireDefined()
	o.create(10)
	o.requirePainted()

	require.NoError(t, shared.Delete(t.Context(), definition))
	o.requireUndefined()
	leader, next := "a", "b"
	if !strings.Contains(o.log(leader), `"started leading"`) {
		leader, next = next, leader
	}
	require.NoError(t, o.processes[leader].Terminate())
	o.requireExit(o.processes[leader], 0) // it has run until now
	o.requireExit(o.processes[next], 1)
	assert.Contains(t, o.log(next), "the API server does not have example.bellwether.dev/v1, Resource=widgets: is its "+
		"CustomResourceDefinition installed?")
}
