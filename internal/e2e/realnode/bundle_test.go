//go:build linux

package realnode_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/bellwether-k8s/bellwether/internal/e2e/kustomize"
	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

// Bundles run as they are installed: kubelets ask their probes in a namespace of the level
// restricted, one Pod of the daemon leads, and the controller's shards have their names.
func TestBundlesRun(t *testing.T) {
	cluster.Need(t)
	t.Parallel()
	for _, bundle := range []struct {
		directory, namespace string
		leases               int
	}{
		{"complete/election", "example-daemon", 1},
		{"sharding", "example-sharding", 4}, // three shards, and their election
	} {
		t.Run(bundle.namespace, func(t *testing.T) {
			t.Parallel()
			a := install(t, bundle.directory, bundle.namespace)
			a.awaitReady(3)
			for _, pod := range a.pods() {
				require.NotNil(t, pod.Spec.Containers[0].ReadinessProbe)
				assert.Zero(t, pod.Status.ContainerStatuses[0].RestartCount, pod.Name)
			}
			leases, err := cluster.Client.CoordinationV1().Leases(a.namespace).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Len(t, leases.Items, bundle.leases)
		})
	}
}

// The operator and the definition of its custom resource are installed at the same moment, and every
// Pod paints. A Pod that starts before the definition is served ends, and its container starts again.
func TestOperatorRuns(t *testing.T) {
	cluster.Need(t)
	t.Parallel()
	a := install(t, "operator", "example-operator")
	a.awaitReady(3)
	const objects = "../../../examples/controllerruntime/operator/objects.yaml"
	require.NoError(t, cluster.Apply(t.Context(), objects)) // their definition is deleted, and they with it
	client, err := dynamic.NewForConfig(cluster.Admin())
	require.NoError(t, err)
	widgets := client.Resource(schema.GroupVersionResource{
		Group: "example.bellwether.dev", Version: "v1", Resource: "widgets",
	})
	pods := map[string]bool{}
	for _, pod := range a.pods() {
		pods[pod.Name] = true
		t.Logf("%s was restarted %d times", pod.Name, pod.Status.ContainerStatuses[0].RestartCount)
	}
	a.eventually("the Widgets are painted", func() bool {
		list, err := widgets.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, list.Items, 12)
		for _, w := range list.Items {
			wanted, _, _ := unstructured.NestedString(w.Object, "spec", "colour")
			colour, _, _ := unstructured.NestedString(w.Object, "status", "colour")
			worker, _, _ := unstructured.NestedString(w.Object, "status", "worker")
			if colour != wanted || !pods[worker] {
				return false
			}
		}
		return true
	})
}

// awaitReady waits until there are n Pods, and each is ready.
func (a *app) awaitReady(n int) {
	a.t.Helper()
	a.eventually(fmt.Sprintf("%d Pods are ready", n), func() bool {
		ready := 0
		for _, pod := range a.pods() {
			if realnode.PodReady(pod) {
				ready++
			}
		}
		return ready == n
	})
}

// install applies a bundle.
func install(t testing.TB, directory, namespace string) *app {
	t.Helper()
	text, err := kustomize.Render(filesys.MakeFsOnDisk(), filepath.Join("../../../deploy", directory))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "bundle.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		assert.NoError(t, cluster.Delete(ctx, file))
	})
	require.NoError(t, cluster.Apply(t.Context(), file))
	a := &app{t: t, namespace: namespace}
	a.history = a.watchPods()
	return a
}
