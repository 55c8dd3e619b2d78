package anycontroller_test

import (
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/bellwether-k8s/bellwether/internal/e2e/kuberay"
)

const rayLease = "ray-operator-leader"

var (
	pods     = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	services = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

// ray is a cluster of ray-operators: on controller-runtime, and with an election of their own.
type ray struct {
	*cluster
	clusters kuberay.RayClusters
}

func newRay(t testing.TB) ray {
	t.Helper()
	path, source := published(t, kuberay.Module, kuberay.Version, "")
	admin := &cluster{t: t}
	var err error
	admin.client, err = dynamicAdmin()
	require.NoError(t, err)
	definitions, err := filepath.Glob(filepath.Join(source, "config", "crd", "bases", "*.yaml"))
	require.NoError(t, err)
	admin.applied(kuberay.Resource(), definitions...)
	content, err := os.ReadFile(filepath.Join(source, "config", "rbac", "role.yaml"))
	require.NoError(t, err)
	var role rbacv1.ClusterRole
	require.NoError(t, yaml.Unmarshal([]byte(strings.TrimPrefix(string(content), "---\n")), &role))
	r := ray{cluster: newCluster(t, program{
		name: "ray", resources: []schema.GroupVersionResource{kuberay.Resource()},
		children: []schema.GroupVersionResource{pods, services}, rights: role.Rules,
	})}
	r.clusters = kuberay.RayClusters{Client: r.client, Namespace: r.namespace}
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
	require.NoError(r.t, r.clusters.Create(r.t.Context(), n))
}

// workers gives all clusters this number of workers.
func (r ray) workers(n int) {
	r.t.Helper()
	require.NoError(r.t, r.clusters.ScaleAll(r.t.Context(), n))
}

func (r ray) reconciled() {
	r.t.Helper()
	r.until("reconciled", func() string {
		why, err := r.clusters.Unreconciled(r.t.Context())
		require.NoError(r.t, err)
		return why
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
