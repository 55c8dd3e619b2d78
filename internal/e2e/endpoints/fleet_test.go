package endpoints_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/referee"
)

const (
	interval = 1 * time.Second
	expiry   = 10 * time.Second

	patience = 90 * time.Second // for what has no bound of its own
	poll     = 20 * time.Millisecond
)

// rules are what the package's documentation says an instance needs, without names.
var rules = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}},
	{
		APIGroups: []string{discoveryv1.GroupName}, Resources: []string{"endpointslices"},
		Verbs: []string{"list", "get", "create", "update", "delete"},
	},
	{APIGroups: []string{""}, Resources: []string{"endpoints"}, Verbs: []string{"get", "create", "update"}},
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "patch", "create"}},
	{
		APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
		Verbs: []string{"list", "get", "create", "update", "delete"},
	},
}

// fleet is the instances of a Service, as processes, and every version of its slices that was seen.
type fleet struct {
	t         *testing.T
	cp        *e2e.ControlPlane
	namespace string
	client    kubernetes.Interface // an admin's
	args      []string             // of every instance
	seen      *referee.Service
}

// newFleet creates a Service named web in a namespace of its own.
func newFleet(t *testing.T, cp *e2e.ControlPlane, args ...string) *fleet {
	t.Helper()
	namespace, err := cp.Namespace(t.Context(), "fleet")
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(cp.Admin())
	require.NoError(t, err)
	f := &fleet{
		t: t, cp: cp, namespace: namespace, client: client,
		args: append([]string{
			"-namespace", namespace, "-interval", interval.String(), "-expire-after",
			expiry.String(),
		}, args...),
	}
	_, err = client.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
			{Name: "https", Port: 443},
			{Name: "metrics", Port: 9090},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, cp.Grant(t.Context(), f.user(), namespace, rules...))
	f.seen = referee.WatchService(t, client, namespace, "web")
	return f
}

func (f *fleet) user() string { return f.namespace + "-instance" }

// requirePublished waits until exactly that is published.
func (f *fleet) requirePublished(want ...string) {
	f.t.Helper()
	slices.Sort(want)
	require.Eventually(f.t, func() bool { return slices.Equal(want, f.seen.Now()) }, patience, poll,
		"never published %v", want)
}

// assertAlways checks that something was published all the time.
func (f *fleet) assertAlways(history [][]string, want ...string) {
	f.t.Helper()
	for _, h := range history {
		assert.Subset(f.t, h, want)
	}
}

// start starts an instance with an address.
func (f *fleet) start(name, addresses string, args ...string) *e2e.Process {
	f.t.Helper()
	program, err := shared.Program(f.t.Context(), "./replica", e2e.Race()...)
	require.NoError(f.t, err)
	kubeconfig, err := f.cp.Kubeconfig(f.cp.User(f.user()))
	require.NoError(f.t, err)
	p, err := f.cp.Run(e2e.Command{
		Name: f.namespace + "-" + name, Path: program,
		Args: slices.Concat(f.args, []string{"-kubeconfig", kubeconfig, "-addresses", addresses}, args),
		// it otherwise waits a second before it lets a process exit
		Env: []string{"GORACE=halt_on_error=1 atexit_sleep_ms=0"},
	})
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = p.Kill() })
	return p
}

// requireEnd tells an instance to end, and waits for it.
func (f *fleet) requireEnd(p *e2e.Process) {
	f.t.Helper()
	require.NoError(f.t, p.Terminate())
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(f.t, err)
	require.Zero(f.t, exit.Code, "%v: %s", exit, f.log(p))
}

func (f *fleet) log(p *e2e.Process) string {
	f.t.Helper()
	text, err := os.ReadFile(p.Log())
	require.NoError(f.t, err)
	return string(text)
}

func (f *fleet) requireLog(p *e2e.Process, text string) {
	f.t.Helper()
	require.Eventually(f.t, func() bool { return strings.Contains(f.log(p), text) }, patience, poll, "never said %q",
		text)
}

// listed is what is published as the API server says at this moment.
func (f *fleet) listed() []string {
	f.t.Helper()
	list, err := f.client.DiscoveryV1().EndpointSlices(f.namespace).List(f.t.Context(), metav1.ListOptions{
		LabelSelector: discoveryv1.LabelManagedBy + "=" + endpoints.ManagedBy,
	})
	require.NoError(f.t, err)
	return referee.Published(list.Items...)
}

// patchData merges into the data of a ConfigMap.
func (f *fleet) patchData(name, data string) {
	f.t.Helper()
	_, err := f.client.CoreV1().ConfigMaps(f.namespace).
		Patch(f.t.Context(), name, types.MergePatchType, []byte(`{"data":`+data+`}`), metav1.PatchOptions{})
	require.NoError(f.t, err)
}

func (f *fleet) createConfigMap(name string, data map[string]string) {
	f.t.Helper()
	_, err := f.client.CoreV1().ConfigMaps(f.namespace).
		Create(f.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data},
			metav1.CreateOptions{})
	require.NoError(f.t, err)
}

// heartbeats counts an instance's writes to the store.
func (f *fleet) heartbeats(resource string) int {
	f.t.Helper()
	events, err := f.cp.Audit()
	require.NoError(f.t, err)
	n := 0
	for _, e := range events {
		if e.User == f.user() && e.Resource == resource && e.Write() && e.Code < 300 {
			n++
		}
	}
	return n
}
