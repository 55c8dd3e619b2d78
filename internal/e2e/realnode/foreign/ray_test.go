//go:build linux

package foreign_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

const (
	operator = "kuberay-operator" // the Deployment, and so the ring
	objects  = 30                 // so many that each shard has some
	patience = 3 * time.Minute
	poll     = 100 * time.Millisecond
)

var rayClusters = schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}

// An operator as it is published becomes three shards by the kustomization of the example, and works on while
// its Pods are replaced, and after one was killed. Nothing is created twice.
func TestForeignOperatorInPods(t *testing.T) {
	if missing != nil {
		t.Skip("NOT TESTED: ", missing)
	}
	o := install(t)
	o.until("three shards", func() string { return o.ready(3) })
	o.create()
	o.until("reconciled", o.unreconciled)
	o.until("shared", o.unshared)

	t.Log("the operator's Pods are replaced")
	deployments, restarted := cluster.Client.AppsV1().Deployments(metav1.NamespaceDefault), time.Now()
	_, err := deployments.Patch(t.Context(), operator, types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"metadata":{"annotations":{"again":"yes"}}}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	o.workers(2)
	o.until("replaced", func() string {
		for _, pod := range o.pods() {
			if pod.Annotations["again"] == "" {
				return pod.Name
			}
		}
		return o.ready(3)
	})
	o.until("reconciled", o.unreconciled)
	t.Logf("%v after the change", time.Since(restarted).Round(poll))

	t.Log("all processes of one Pod are killed")
	killed := o.pods()[0].Status.ContainerStatuses[0]
	require.NoError(t, realnode.Signal(killed.ContainerID, syscall.SIGKILL))
	o.workers(3)
	o.until("reconciled", o.unreconciled)
	o.until("three shards", func() string { return o.ready(3) })
	o.until("shared", o.unshared)

	o.mu.Lock()
	defer o.mu.Unlock()
	assert.Len(t, o.created["pods"], objects*4)
	assert.Len(t, o.created["services/specs"], objects)
}

// ray is the operator in the default namespace, and the objects of a namespace of their own.
type ray struct {
	t         testing.TB
	namespace string
	objects   dynamic.ResourceInterface

	mu      sync.Mutex
	wanted  int                          // workers of each object
	created map[string]map[types.UID]any // by where they are stored
}

// install applies the example, with the directory of the operator's module instead of its URL.
func install(t testing.TB) *ray {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "examples/anycontroller/kuberay/kustomization.yaml"))
	require.NoError(t, err)
	source, err := e2e.PublishedSource(t.Context(), rayModule, rayVersion)
	require.NoError(t, err)
	kustomization, directory := string(text), t.TempDir()
	for _, is := range []struct{ written, directory string }{
		{"https://" + rayRepository + "/config/default?ref=" + rayVersion, source + "/config/default"},
		{"../../../deploy/any-controller", root + "/deploy/any-controller"},
	} {
		require.Contains(t, kustomization, is.written)
		absolute, err := filepath.Abs(is.directory)
		require.NoError(t, err)
		relative, err := filepath.Rel(directory, absolute) // as kustomize wants it
		require.NoError(t, err)
		kustomization = strings.Replace(kustomization, is.written, relative, 1)
	}
	require.NoError(t, os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(kustomization), 0o600))
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy // as in kubectl
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), directory)
	require.NoError(t, err)
	manifest, err := resources.AsYaml()
	require.NoError(t, err)
	file := filepath.Join(directory, "manifest.yaml")
	require.NoError(t, os.WriteFile(file, manifest, 0o600))
	require.NoError(t, cluster.Apply(t.Context(), file))

	namespace, err := cluster.Namespace(t.Context(), "ray")
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(cluster.Admin())
	require.NoError(t, err)
	o := &ray{
		t: t, namespace: namespace, objects: client.Resource(rayClusters).Namespace(namespace), wanted: 1,
		created: map[string]map[types.UID]any{"pods": {}, "services/specs": {}},
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var following sync.WaitGroup
	following.Go(func() {
		stored := []string{"pods", "services/specs"}
		assert.NoError(t, cluster.Versions(ctx, namespace, stored, func(v e2e.Version) error {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.created[v.Resource][v.Object.GetUID()] = nil
			return nil
		}))
	})
	t.Cleanup(following.Wait)
	t.Cleanup(stop)
	return o
}

// create creates objects whose Pods fit on no node.
func (o *ray) create() {
	o.t.Helper()
	group := func(fields map[string]any) map[string]any {
		fields["rayStartParams"] = map[string]any{}
		fields["template"] = map[string]any{"spec": map[string]any{
			"nodeSelector": map[string]any{"node": "none"},
			"containers":   []any{map[string]any{"name": "ray", "image": "rayproject/ray:2.46.0"}},
		}}
		return fields
	}
	for i := range objects {
		_, err := o.objects.Create(o.t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "ray.io/v1", "kind": "RayCluster",
			"metadata": map[string]any{"name": fmt.Sprintf("ray-%02d", i)},
			"spec": map[string]any{
				"headGroupSpec": group(map[string]any{}),
				"workerGroupSpecs": []any{group(map[string]any{
					"groupName": "w", "replicas": int64(o.wanted), "minReplicas": int64(0), "maxReplicas": int64(9),
				})},
			},
		}}, metav1.CreateOptions{})
		require.NoError(o.t, err)
	}
}

// workers gives all objects this number of workers.
func (o *ray) workers(n int) {
	o.t.Helper()
	o.wanted = n
	for i := range objects {
		_, err := o.objects.Patch(o.t.Context(), fmt.Sprintf("ray-%02d", i), types.JSONPatchType,
			fmt.Appendf(nil, `[{"op":"replace","path":"/spec/workerGroupSpecs/0/replicas","value":%d}]`, n),
			metav1.PatchOptions{})
		require.NoError(o.t, err)
	}
}

// unreconciled returns what is not as wanted: each object has one head, its workers, and a service.
func (o *ray) unreconciled() string {
	o.t.Helper()
	has := map[string]int{}
	pods, err := cluster.Client.CoreV1().Pods(o.namespace).List(o.t.Context(), metav1.ListOptions{})
	require.NoError(o.t, err)
	for _, each := range pods.Items {
		has[each.Labels["ray.io/cluster"]+" pods"]++
	}
	services, err := cluster.Client.CoreV1().Services(o.namespace).List(o.t.Context(), metav1.ListOptions{})
	require.NoError(o.t, err)
	for _, each := range services.Items {
		has[each.Labels["ray.io/cluster"]+" services"]++
	}
	for i := range objects {
		name := fmt.Sprintf("ray-%02d", i)
		if has[name+" pods"] != 1+o.wanted || has[name+" services"] != 1 {
			return fmt.Sprintf("%s: %v", name, has)
		}
	}
	return ""
}

// unshared returns the shares of the objects, unless each Pod of the operator has one.
func (o *ray) unshared() string {
	o.t.Helper()
	list, err := o.objects.List(o.t.Context(), metav1.ListOptions{})
	require.NoError(o.t, err)
	shares := map[string]int{}
	for _, each := range list.Items {
		shares[each.GetLabels()[api.ShardLabel(operator)]]++
	}
	for _, pod := range o.pods() {
		if shares[pod.Name] == 0 {
			return fmt.Sprint(pod.Name, " has none of ", shares)
		}
	}
	o.t.Log(shares)
	return ""
}

func (o *ray) pods() []corev1.Pod {
	o.t.Helper()
	list, err := cluster.Client.CoreV1().Pods(metav1.NamespaceDefault).List(o.t.Context(), metav1.ListOptions{})
	require.NoError(o.t, err)
	return list.Items
}

// ready returns the states of the operator's Pods, unless so many are ready, and no more are there.
func (o *ray) ready(n int) string {
	o.t.Helper()
	ready, states := 0, map[string]corev1.PodStatus{}
	for _, pod := range o.pods() {
		states[pod.Name] = pod.Status
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	if ready == n && len(states) == n {
		return ""
	}
	text, _ := json.Marshal(states)
	return string(text)
}

// until waits until a condition holds, which returns why it does not.
func (o *ray) until(what string, why func() string) {
	o.t.Helper()
	for began := time.Now(); ; time.Sleep(poll) {
		reason := why()
		if reason == "" {
			o.t.Logf("%s: %v", what, time.Since(began).Round(poll))
			return
		}
		if time.Since(began) > patience {
			require.FailNow(o.t, what, reason)
		}
	}
}
