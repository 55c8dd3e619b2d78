package anycontroller_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

const (
	rayModule  = "github.com/ray-project/kuberay/ray-operator"
	rayVersion = "v1.5.0"
	rayLease   = "ray-operator-leader"
	rayWorkers = 100 // at most, of each cluster
)

var (
	rayClusters = schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

// ray is a cluster of ray-operators: on controller-runtime, with an election of their own, and with Pods whose
// names the API server makes, so that nothing but their caches keeps them from creating one twice.
type ray struct{ *cluster }

func newRay(t testing.TB) ray {
	t.Helper()
	path, source := published(t, rayModule, rayVersion, "")
	admin := &cluster{t: t}
	var err error
	admin.client, err = dynamicAdmin()
	require.NoError(t, err)
	definitions, err := filepath.Glob(filepath.Join(source, "config", "crd", "bases", "*.yaml"))
	require.NoError(t, err)
	admin.applied(rayClusters, definitions...)
	content, err := os.ReadFile(filepath.Join(source, "config", "rbac", "role.yaml"))
	require.NoError(t, err)
	var role rbacv1.ClusterRole
	require.NoError(t, yaml.Unmarshal([]byte(strings.TrimPrefix(string(content), "---\n")), &role))
	r := ray{newCluster(t, program{
		name: "ray", resources: []schema.GroupVersionResource{rayClusters},
		children: []schema.GroupVersionResource{pods, services}, rights: role.Rules,
	})}
	r.program.flags = []string{"--own-election", r.namespace + "/" + rayLease}
	r.program.command = []string{
		path, "-enable-leader-election", "-leader-election-namespace", r.namespace, "-metrics-addr", "0",
		"-health-probe-bind-address", "127.0.0.1:0",
	}
	kube, err := kubernetes.NewForConfig(shared.Admin())
	require.NoError(t, err)
	_, err = kube.CoreV1().ServiceAccounts(r.namespace).Create(t.Context(), // for the Pods
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return r
}

func (r ray) create(n int) {
	r.t.Helper()
	template := func() map[string]any {
		return map[string]any{"spec": map[string]any{"containers": []any{
			map[string]any{"name": "ray", "image": "rayproject/ray:2.46.0"},
		}}}
	}
	clusters := r.client.Resource(rayClusters).Namespace(r.namespace)
	for i := range n {
		_, err := clusters.Create(r.t.Context(), &unstructured.Unstructured{
			Object: map[string]any{
				"apiVersion": "ray.io/v1", "kind": "RayCluster",
				"metadata": map[string]any{"name": fmt.Sprintf("ray-%02d", i)},
				"spec": map[string]any{
					"headGroupSpec": map[string]any{"rayStartParams": map[string]any{}, "template": template()},
					"workerGroupSpecs": []any{map[string]any{
						"groupName": "w", "replicas": int64(1), "minReplicas": int64(0),
						"maxReplicas":    int64(rayWorkers),
						"rayStartParams": map[string]any{}, "template": template(),
					}},
				},
			},
		}, metav1.CreateOptions{})
		require.NoError(r.t, err)
	}
}

// workers gives all clusters this number of workers.
func (r ray) workers(n int) {
	r.t.Helper()
	for _, o := range r.list(rayClusters) {
		require.NoError(r.t, r.scale(r.t.Context(), o.GetName(), n))
	}
}

func (r ray) scale(ctx context.Context, name string, workers int) error {
	const path = "/spec/workerGroupSpecs/0/replicas"
	_, err := r.client.Resource(rayClusters).Namespace(r.namespace).Patch(ctx, name, types.JSONPatchType,
		fmt.Appendf(nil, `[{"op":"replace","path":%q,"value":%d}]`, path, workers), metav1.PatchOptions{})
	return err
}

// workersOf returns how many workers a cluster wants.
func workersOf(o unstructured.Unstructured) int {
	groups, _, _ := unstructured.NestedSlice(o.Object, "spec", "workerGroupSpecs")
	return int(groups[0].(map[string]any)["replicas"].(int64))
}

// reconciled waits until each cluster has one head, its workers, and a service.
func (r ray) reconciled() {
	r.t.Helper()
	r.until("reconciled", func() string {
		has := map[string]int{}
		for _, resource := range []schema.GroupVersionResource{pods, services} {
			for _, o := range r.list(resource) {
				if o.GetDeletionTimestamp() == nil {
					has[o.GetLabels()["ray.io/cluster"]+" "+resource.Resource]++
				}
			}
		}
		done, all := 0, r.list(rayClusters)
		for _, o := range all {
			if has[o.GetName()+" pods"] == 1+workersOf(o) && has[o.GetName()+" services"] == 1 {
				done++
			}
		}
		if done < len(all) {
			return fmt.Sprintf("%d of %d are reconciled: %v", done, len(all), has)
		}
		return ""
	})
}

// Three replicas of an operator that has only one leader work at a time, each on its own objects.
func TestForeignRayOperator(t *testing.T) {
	r := newRay(t)
	const objects = 30
	r.create(objects)
	r.start("a")
	r.start("b")
	r.among("a", "b")
	r.reconciled()

	var load sync.WaitGroup
	load.Go(func() { r.workers(2) })
	r.start("c")
	r.among("a", "b", "c")
	load.Wait()
	r.reconciled()

	t.Log("kill -9")
	require.NoError(t, r.replicas["b"].Kill())
	r.among("a", "c")
	r.workers(3)
	r.reconciled()
	assert.Empty(t, r.programs("b"))

	t.Log("drained")
	require.NoError(t, r.replicas["a"].Terminate())
	r.among("c")
	r.workers(4)
	r.reconciled()

	t.Log("both start again")
	r.start("b2")
	require.NoError(t, r.replicas["a"].Restart())
	r.among("a", "b2", "c")
	r.workers(5)
	r.reconciled()
	r.judged()
	r.createdOnce(services, objects)
	r.createdOnce(pods, objects*6)

	var names []string
	for _, o := range r.list(leases) {
		names = append(names, o.GetName())
	}
	assert.NotContains(t, names, rayLease, "the election is each shard's own")
	t.Logf("leases: %v", names)
}
