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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/kuberay"
	"github.com/bellwether-k8s/bellwether/internal/e2e/kustomize"
	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

const (
	operator = "kuberay-operator" // the Deployment, and so the ring
	objects  = 30                 // so many that each shard has some
	patience = 3 * time.Minute
	poll     = 100 * time.Millisecond
)

// An operator as it is published becomes three shards by the kustomization of the example, and works on while
// its Pods are replaced, and after one was killed. Nothing is created twice.
func TestForeignOperatorInPods(t *testing.T) {
	if unpublished != nil {
		t.Skip("NOT TESTED: ", unpublished)
	}
	cluster.Need(t)
	o := install(t)
	o.until("three shards", func() string { return o.ready(3) })
	require.NoError(t, o.clusters.Create(t.Context(), objects))
	o.reconciled()
	o.until("shared", o.unshared)

	t.Log("the operator's Pods are replaced")
	deployments, restarted := cluster.Client.AppsV1().Deployments(metav1.NamespaceDefault), time.Now()
	_, err := deployments.Patch(t.Context(), operator, types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"metadata":{"annotations":{"again":"yes"}}}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, o.clusters.ScaleAll(t.Context(), 2))
	o.until("replaced", func() string {
		for _, pod := range o.pods() {
			if pod.Annotations["again"] == "" {
				return pod.Name
			}
		}
		return o.ready(3)
	})
	o.reconciled()
	t.Logf("%v after the change", time.Since(restarted).Round(poll))

	t.Log("all processes of one Pod are killed")
	killed := o.pods()[0].Status.ContainerStatuses[0]
	require.NoError(t, realnode.Signal(killed.ContainerID, syscall.SIGKILL))
	require.NoError(t, o.clusters.ScaleAll(t.Context(), 3))
	o.reconciled()
	o.until("three shards", func() string { return o.ready(3) })
	o.until("shared", o.unshared)

	o.until("all are seen", func() string {
		if pods, services := o.seen(); pods < objects*4 || services < objects {
			return fmt.Sprint(pods, services)
		}
		return ""
	})
	pods, services := o.seen()
	assert.Equal(t, objects*4, pods)
	assert.Equal(t, objects, services)
}

// ray is the operator in the default namespace, and the objects of a namespace of their own.
type ray struct {
	t        testing.TB
	clusters kuberay.RayClusters

	mu      sync.Mutex
	created map[string]map[types.UID]any // by where they are stored
}

// install applies the example, with the directory of the operator's module instead of its URL.
func install(t testing.TB) *ray {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "examples/anycontroller/kuberay/kustomization.yaml"))
	require.NoError(t, err)
	source, err := e2e.PublishedSource(t.Context(), kuberay.Module, kuberay.Version)
	require.NoError(t, err)
	kustomization, directory := string(text), t.TempDir()
	for _, is := range []struct{ written, directory string }{
		{"https://" + rayRepository + "/config/default?ref=" + kuberay.Version, source + "/config/default"},
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
	manifest, err := kustomize.Render(filesys.MakeFsOnDisk(), directory)
	require.NoError(t, err)
	file := filepath.Join(directory, "manifest.yaml")
	require.NoError(t, os.WriteFile(file, manifest, 0o600))
	require.NoError(t, cluster.Apply(t.Context(), file))

	namespace, err := cluster.Namespace(t.Context(), "ray")
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(cluster.Admin())
	require.NoError(t, err)
	o := &ray{
		t: t, clusters: kuberay.RayClusters{Client: client, Namespace: namespace},
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

// seen returns how many Pods and Services were ever created.
func (o *ray) seen() (pods, services int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.created["pods"]), len(o.created["services/specs"])
}

// reconciled waits until each object has what it should have.
func (o *ray) reconciled() {
	o.t.Helper()
	o.until("reconciled", func() string {
		why, err := o.clusters.Unreconciled(o.t.Context())
		require.NoError(o.t, err)
		return why
	})
}

// unshared returns the shares of the objects, unless each Pod of the operator has one.
func (o *ray) unshared() string {
	o.t.Helper()
	all, err := o.clusters.List(o.t.Context())
	require.NoError(o.t, err)
	shares := map[string]int{}
	for _, each := range all {
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
		if realnode.PodReady(pod) {
			ready++
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
