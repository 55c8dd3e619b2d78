package anycontroller_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	sampleModule  = "k8s.io/sample-controller"
	sampleVersion = "v0.36.3"
)

var (
	foos        = schema.GroupVersionResource{Group: "samplecontroller.k8s.io", Version: "v1alpha1", Resource: "foos"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// published returns the path of a program that others have published and the directory of its sources, or
// skips the test.
func published(t testing.TB, module, version, pkg string) (path, source string) {
	t.Helper()
	path, err := e2e.Published(t.Context(), os.Stderr, module, version, pkg)
	if err == nil {
		source, err = e2e.PublishedSource(t.Context(), module, version)
	}
	if errors.Is(err, e2e.ErrNotPublished) {
		t.Skip("NOT TESTED: ", err)
	}
	require.NoError(t, err)
	return path, source
}

// applied creates the definitions of a program's resources, unless another test has, and waits until they
// are served.
func (c *cluster) applied(resource schema.GroupVersionResource, manifests ...string) {
	c.t.Helper()
	for _, manifest := range manifests {
		if err := shared.Apply(c.t.Context(), manifest); !apierrors.IsAlreadyExists(err) {
			require.NoError(c.t, err, manifest)
		}
	}
	require.Eventually(c.t, func() bool {
		_, err := c.client.Resource(resource).List(c.t.Context(), metav1.ListOptions{})
		return err == nil
	}, patience, poll)
}

// sampleController is Kubernetes' own example of a controller, on client-go.
func sampleController(t testing.TB) (p program, definition string) {
	t.Helper()
	path, source := published(t, sampleModule, sampleVersion, "")
	return program{
		name: "sample", resources: []schema.GroupVersionResource{foos},
		children: []schema.GroupVersionResource{deployments},
		rights: []rbacv1.PolicyRule{
			{APIGroups: []string{foos.Group}, Resources: []string{"foos"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{foos.Group}, Resources: []string{"foos/status"}, Verbs: []string{"update"}},
			{
				APIGroups: []string{"apps"}, Resources: []string{"deployments"},
				Verbs: []string{"get", "list", "watch", "create", "update"},
			},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		},
		// It looks for a kubeconfig only where its flag says.
		command: []string{"/bin/sh", "-c", `exec "$0" -kubeconfig "$KUBECONFIG"`, path},
	}, filepath.Join(source, "artifacts", "examples", "crd-status-subresource.yaml")
}

// sample is a cluster of sample-controllers.
type sample struct{ *cluster }

func newSample(t testing.TB) sample {
	t.Helper()
	p, definition := sampleController(t)
	admin := &cluster{t: t}
	var err error
	admin.client, err = dynamicAdmin()
	require.NoError(t, err)
	admin.applied(foos, definition)
	return sample{newCluster(t, p)}
}

// create creates Foos, the number from of them on.
func (s sample) create(from, to int) {
	s.t.Helper()
	for i := from; i < to; i++ {
		foo := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": foos.GroupVersion().String(), "kind": "Foo",
			"metadata": map[string]any{"name": fmt.Sprintf("foo-%03d", i)},
			"spec":     map[string]any{"deploymentName": fmt.Sprintf("of-%03d", i), "replicas": int64(1)},
		}}
		_, err := s.client.Resource(foos).Namespace(s.namespace).Create(s.t.Context(), foo, metav1.CreateOptions{})
		require.NoError(s.t, err)
	}
}

// change gives all Foos another number of replicas.
func (s sample) change(replicas int) {
	s.t.Helper()
	for _, foo := range s.list(foos) {
		require.NoError(s.t, s.scale(s.t.Context(), foo.GetName(), replicas))
	}
}

func (s sample) scale(ctx context.Context, name string, replicas int) error {
	_, err := s.client.Resource(foos).Namespace(s.namespace).Patch(ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
	return err
}

// done counts the Foos whose Deployment is as they want it, and whose status shows that it was seen.
func (s sample) done() (done, of int) {
	s.t.Helper()
	have := map[string]int64{}
	for _, d := range s.list(deployments) {
		have[d.GetName()], _, _ = unstructured.NestedInt64(d.Object, "spec", "replicas")
	}
	all := s.list(foos)
	for _, foo := range all {
		name, _, _ := unstructured.NestedString(foo.Object, "spec", "deploymentName")
		want, _, _ := unstructured.NestedInt64(foo.Object, "spec", "replicas")
		_, seen, _ := unstructured.NestedInt64(foo.Object, "status", "availableReplicas")
		if seen && have[name] == want {
			done++
		}
	}
	return done, len(all)
}

// reconciled waits until all Foos are.
func (s sample) reconciled() {
	s.t.Helper()
	s.until("reconciled", func() string {
		if done, of := s.done(); done < of {
			return fmt.Sprintf("%d of %d are reconciled", done, of)
		}
		return ""
	})
}

// Three replicas of a controller that elects no leader and was written for one share its objects, whatever
// becomes of them.
func TestForeignSampleController(t *testing.T) {
	s := newSample(t)
	const objects = 100
	s.create(0, objects)
	a := s.start("a")
	s.start("b")
	s.among("a", "b")
	s.reconciled()

	// A third joins while all of them change.
	var load sync.WaitGroup
	load.Go(func() { s.change(2) })
	s.start("c")
	s.among("a", "b", "c")
	load.Wait()
	s.reconciled()

	t.Log("kill -9")
	require.NoError(t, s.replicas["b"].Kill())
	s.among("a", "c")
	s.change(3)
	s.reconciled()
	assert.Empty(t, s.programs("b"))

	t.Log("SIGSTOP")
	require.NoError(t, a.Pause())
	s.change(4) // half of them are the stopped one's
	s.among("c")
	s.reconciled()
	assert.Eventually(t, func() bool { return len(s.programs("a")) == 0 }, time.Minute, poll)

	t.Log("both start again")
	s.start("b2")
	require.NoError(t, a.Restart())
	s.among("a", "b2", "c")
	s.change(5)
	s.reconciled()
	s.judged()
	s.createdOnce(deployments, objects)
}

// createdOnce shows that so many objects of a resource were ever created.
func (c *cluster) createdOnce(resource schema.GroupVersionResource, want int) {
	c.t.Helper()
	c.judge.mu.Lock()
	defer c.judge.mu.Unlock()
	created := 0
	for _, o := range c.judge.objects {
		if o.resource == resource.GroupResource() {
			created++
		}
	}
	assert.Equal(c.t, want, created, "%s that were created", resource.Resource)
}

// Programs that reach the API server directly write to each other's objects, and the judge sees it.
func TestForeignProgramsThatGoAroundTheProxyAreFound(t *testing.T) {
	s := newSample(t)
	s.create(0, 10)
	for _, name := range []string{"a", "b"} {
		direct, err := s.cp.Kubeconfig(s.cp.User(s.namespace+"-"+name, replicasGroup))
		require.NoError(t, err)
		path := s.program.command[len(s.program.command)-1]
		command := s.program.command
		s.program.command = []string{path, "-kubeconfig", direct}
		s.start(name)
		s.program.command = command
	}
	s.among("a", "b")
	s.reconciled()
	s.change(2)
	s.reconciled()
	s.digest()
	assert.NotEmpty(t, s.judge.breaches)
}
