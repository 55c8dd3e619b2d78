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

// cluster is the instances of a Service, as processes, and every version of its slices that was seen.
type cluster struct {
	t         *testing.T
	cp        *e2e.ControlPlane
	namespace string
	client    kubernetes.Interface // an admin's
	args      []string             // of every instance
	seen      *referee.Service
}

// newCluster creates a Service named web in a namespace of its own.
func newCluster(t *testing.T, cp *e2e.ControlPlane, args ...string) *cluster {
	t.Helper()
	namespace, err := cp.Namespace(t.Context(), "cluster")
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(cp.Admin())
	require.NoError(t, err)
	c := &cluster{
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
	require.NoError(t, cp.Grant(t.Context(), c.user(), namespace, rules...))
	c.seen = referee.WatchService(t, client, namespace, "web")
	return c
}

func (c *cluster) user() string { return c.namespace + "-instance" }

// requirePublished waits until exactly that is published.
func (c *cluster) requirePublished(want ...string) {
	c.t.Helper()
	c.requirePublishedWithin(patience, want...)
}

func (c *cluster) requirePublishedWithin(d time.Duration, want ...string) {
	c.t.Helper()
	slices.Sort(want)
	require.Eventually(c.t, func() bool { return slices.Equal(want, c.seen.Now()) }, d, poll,
		"never published %v", want)
}

// assertAlways checks that something was published all the time.
func (c *cluster) assertAlways(history [][]string, want ...string) {
	c.t.Helper()
	for _, h := range history {
		assert.Subset(c.t, h, want)
	}
}

// start starts an instance with an address.
func (c *cluster) start(name, addresses string, args ...string) *e2e.Process {
	c.t.Helper()
	program, err := shared.Program(c.t.Context(), "./replica", e2e.Race()...)
	require.NoError(c.t, err)
	kubeconfig, err := c.cp.Kubeconfig(c.cp.User(c.user()))
	require.NoError(c.t, err)
	p, err := c.cp.Run(e2e.Command{
		Name: c.namespace + "-" + name, Path: program,
		Args: slices.Concat(c.args, []string{"-kubeconfig", kubeconfig, "-addresses", addresses}, args),
		// it otherwise waits a second before it lets a process exit
		Env: []string{"GORACE=halt_on_error=1 atexit_sleep_ms=0"},
	})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = p.Kill() })
	return p
}

// requireEnd tells an instance to end, and waits for it.
func (c *cluster) requireEnd(p *e2e.Process) {
	c.t.Helper()
	require.NoError(c.t, p.Terminate())
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(c.t, err)
	require.Zero(c.t, exit.Code, "%v: %s", exit, c.log(p))
}

func (c *cluster) log(p *e2e.Process) string {
	c.t.Helper()
	text, err := os.ReadFile(p.Log())
	require.NoError(c.t, err)
	return string(text)
}

func (c *cluster) requireLog(p *e2e.Process, text string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return strings.Contains(c.log(p), text) }, patience, poll, "never said %q",
		text)
}

// listed is what is published as the API server says at this moment.
func (c *cluster) listed() []string {
	c.t.Helper()
	list, err := c.client.DiscoveryV1().EndpointSlices(c.namespace).List(c.t.Context(), metav1.ListOptions{
		LabelSelector: discoveryv1.LabelManagedBy + "=" + endpoints.ManagedBy,
	})
	require.NoError(c.t, err)
	return referee.Published(list.Items...)
}

// patchData merges into the data of a ConfigMap.
func (c *cluster) patchData(name, data string) {
	c.t.Helper()
	c.patch(name, `{"data":`+data+`}`)
}

// patch repeats a write that the API server gives up: of a large object, instances write new versions
// faster than it merges one.
func (c *cluster) patch(name, body string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		_, err := c.client.CoreV1().ConfigMaps(c.namespace).
			Patch(c.t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err == nil
	}, patience, poll, "cannot write %s", body)
}

func (c *cluster) createConfigMap(name string, data map[string]string) {
	c.t.Helper()
	_, err := c.client.CoreV1().ConfigMaps(c.namespace).
		Create(c.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data},
			metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// heartbeats counts an instance's writes to the store.
func (c *cluster) heartbeats(resource string) int {
	c.t.Helper()
	events, err := c.cp.Audit()
	require.NoError(c.t, err)
	n := 0
	for _, e := range events {
		if e.User == c.user() && e.Resource == resource && e.Write() && e.Code < 300 {
			n++
		}
	}
	return n
}
