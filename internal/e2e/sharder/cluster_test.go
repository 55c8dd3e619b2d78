package sharder_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	duration = 15 * time.Second // of leases: a busy machine can keep those

	poll = 50 * time.Millisecond

	ringName = "r" // of the replicas
)

// configMaps are what most tests distribute.
var configMaps = kind{
	Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap",
	namespaced: true,
}

// kind is a kind of objects.
type kind struct {
	Resource   schema.GroupVersionResource
	Kind       string
	namespaced bool
}

// flag is what a replica has to be told to distribute such objects.
func (k kind) flag() string {
	if k.namespaced {
		return "-resource=" + k.name()
	}
	return "-cluster-resource=" + k.name()
}

// name is that of its resource, for a flag.
func (k kind) name() string {
	return strings.TrimPrefix(k.Resource.Group+"/"+k.Resource.Version+"/"+k.Resource.Resource, "/")
}

// cluster is the replicas of one ring, as processes, in a namespace of their own; and the referee,
// who has seen everything that they did.
type cluster struct {
	t         testing.TB
	cp        *e2e.ControlPlane
	namespace string
	duration  time.Duration // of leases: D
	patience  time.Duration // for what has no bound of its own
	kinds     []kind
	children  []kind // of objects of those kinds
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	annotated int      // bytes of an annotation that each object is created with
	referee   *referee // nil: there is none
	build     []string // flags of go build
	program   string   // that replicas run; empty: the one of this commit, built with these flags

	mu        sync.Mutex
	lines     []line
	processes map[string]*e2e.Process
	rights    map[string]bool // users that have theirs
	markers   int
	requests  []e2e.AuditEvent // of the replicas, as far as the audit log was read
	read      int              // lines of the audit log
}

// newCluster returns a cluster without replicas, for objects of these kinds; none: ConfigMaps.
func newCluster(t testing.TB, kinds ...kind) *cluster {
	t.Helper()
	return newClusterIn(t, shared, kinds...)
}

// newClusterIn returns one in a control plane.
func newClusterIn(t testing.TB, cp *e2e.ControlPlane, kinds ...kind) *cluster {
	t.Helper()
	c := newCrowdIn(t, cp, kinds...)
	c.build, c.patience = e2e.Race(), 5*time.Minute
	c.referee = newReferee(c)
	return c
}

// newCrowd returns a cluster without a referee, whose replicas are built as users build them: for
// measuring.
func newCrowd(t testing.TB, kinds ...kind) *cluster {
	t.Helper()
	return newCrowdIn(t, shared, kinds...)
}

func newCrowdIn(t testing.TB, cp *e2e.ControlPlane, kinds ...kind) *cluster {
	t.Helper()
	if len(kinds) == 0 {
		kinds = []kind{configMaps}
	}
	namespace, err := cp.Namespace(t.Context(), "cluster")
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(cp.Admin())
	require.NoError(t, err)
	objects, err := dynamic.NewForConfig(cp.Admin())
	require.NoError(t, err)
	return &cluster{
		t: t, cp: cp, namespace: namespace, duration: duration, patience: 10 * time.Minute, kinds: kinds,
		client: client, dynamic: objects,
		processes: map[string]*e2e.Process{}, rights: map[string]bool{},
	}
}

// rules is what the documentation of the packages says that a replica needs: in the namespace, and
// in the cluster.
func (c *cluster) rules() (namespace, cluster []rbacv1.PolicyRule) {
	namespace = []rbacv1.PolicyRule{
		{
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
			Verbs: []string{"create", "get", "list", "watch", "update", "delete"},
		},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "get", "update"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"watch"}},
	}
	for _, k := range slices.Concat(c.kinds, c.children) {
		rule := rbacv1.PolicyRule{
			APIGroups: []string{k.Resource.Group}, Resources: []string{k.Resource.Resource},
			Verbs: []string{"list", "watch", "get", "patch"},
		}
		if k.namespaced {
			namespace = append(namespace, rule)
		} else {
			cluster = append(cluster, rule)
		}
	}
	return namespace, cluster
}

// user returns the configuration of a replica's own user, with all rights that it needs.
func (c *cluster) user(name string) *rest.Config {
	c.t.Helper()
	user := c.namespace + "-" + name
	if !c.rights[user] {
		c.rights[user] = true
		namespace, cluster := c.rules()
		require.NoError(c.t, c.cp.Grant(c.t.Context(), user, c.namespace, namespace...))
		if len(cluster) > 0 {
			require.NoError(c.t, c.cp.Grant(c.t.Context(), user, "", cluster...))
		}
	}
	return c.cp.User(user)
}

// start starts a replica.
func (c *cluster) start(name string, args ...string) *e2e.Process {
	c.t.Helper()
	return c.startAs(c.user(name), name, args...)
}

// startAs starts a replica with the client configuration given.
func (c *cluster) startAs(config *rest.Config, name string, args ...string) *e2e.Process {
	c.t.Helper()
	command := c.command(config, name, args...)
	command.Path = c.program
	if command.Path == "" {
		program, err := shared.Program(c.t.Context(), "./replica", c.build...)
		require.NoError(c.t, err)
		command.Path = program
	}
	p, err := c.cp.Run(command)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = p.Kill() })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes[name] = p
	return p
}

func (c *cluster) command(config *rest.Config, name string, args ...string) e2e.Command {
	c.t.Helper()
	kubeconfig, err := c.cp.Kubeconfig(config)
	require.NoError(c.t, err)
	all := []string{
		"-kubeconfig", kubeconfig, "-namespace", c.namespace, "-identity", name, "-lease-duration",
		c.duration.String(),
	}
	for _, k := range c.kinds {
		all = append(all, k.flag())
	}
	for _, k := range c.children {
		all = append(all, "-child="+k.name())
	}
	return e2e.Command{
		Name: c.namespace + "-" + name,
		Args: append(all, args...),
		// The race detector otherwise waits a second before it lets a process exit.
		Env:    []string{"GORACE=halt_on_error=1 atexit_sleep_ms=0"},
		OnLine: func(text string) { c.note(name, text) },
		// Signals are then for the replica, not for its supervisor.
		Supervised: slices.Contains(args, "-supervised"),
	}
}

// restart kills a replica, if it still runs, and starts it again.
func (c *cluster) restart(p *e2e.Process) {
	c.t.Helper()
	require.NoError(c.t, p.Kill())
	c.referee.died(c.nameOf(p), c.requireEnd(p).At)
	require.NoError(c.t, p.Restart())
}

func (c *cluster) nameOf(p *e2e.Process) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, q := range c.processes {
		if p == q {
			return name
		}
	}
	c.t.Fatal("not a replica of the cluster")
	return ""
}

// lease returns the lease of a shard.
func (c *cluster) lease(shard string) *coordinationv1.Lease {
	c.t.Helper()
	l, err := c.client.CoordinationV1().Leases(c.namespace).Get(c.t.Context(), shard, metav1.GetOptions{})
	require.NoError(c.t, err)
	return l
}

// requireEnd waits for the end of a replica.
func (c *cluster) requireEnd(p *e2e.Process) e2e.Exit {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), c.patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(c.t, err)
	return exit
}

// requireExit waits for a replica to exit.
func (c *cluster) requireExit(p *e2e.Process, code int) e2e.Exit {
	c.t.Helper()
	exit := c.requireEnd(p)
	require.Equal(c.t, strconv.Itoa(code), strconv.Itoa(exit.Code), "%s: %s", exit, c.log(p))
	return exit
}
