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

// fleet is the replicas of one ring, as processes, in a namespace of their own; and the referee,
// who has seen everything that they did.
type fleet struct {
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

// newFleet returns a fleet without replicas, for objects of these kinds; none: ConfigMaps.
func newFleet(t testing.TB, kinds ...kind) *fleet {
	t.Helper()
	return newFleetIn(t, shared, kinds...)
}

// newFleetIn returns one in a control plane.
func newFleetIn(t testing.TB, cp *e2e.ControlPlane, kinds ...kind) *fleet {
	t.Helper()
	f := newCrowdIn(t, cp, kinds...)
	f.build, f.patience = e2e.Race(), 5*time.Minute
	f.referee = newReferee(f)
	return f
}

// newCrowd returns a fleet without a referee, whose replicas are built as users build them: for
// measuring.
func newCrowd(t testing.TB, kinds ...kind) *fleet {
	t.Helper()
	return newCrowdIn(t, shared, kinds...)
}

func newCrowdIn(t testing.TB, cp *e2e.ControlPlane, kinds ...kind) *fleet {
	t.Helper()
	if len(kinds) == 0 {
		kinds = []kind{configMaps}
	}
	namespace, err := cp.Namespace(t.Context(), "fleet")
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(cp.Admin())
	require.NoError(t, err)
	objects, err := dynamic.NewForConfig(cp.Admin())
	require.NoError(t, err)
	return &fleet{
		t: t, cp: cp, namespace: namespace, duration: duration, patience: 10 * time.Minute, kinds: kinds,
		client: client, dynamic: objects,
		processes: map[string]*e2e.Process{}, rights: map[string]bool{},
	}
}

// rules is what the documentation of the packages says that a replica needs: in the namespace, and
// in the cluster.
func (f *fleet) rules() (namespace, cluster []rbacv1.PolicyRule) {
	namespace = []rbacv1.PolicyRule{
		{
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
			Verbs: []string{"create", "get", "list", "watch", "update", "delete"},
		},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "get", "update"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"watch"}},
	}
	for _, k := range slices.Concat(f.kinds, f.children) {
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
func (f *fleet) user(name string) *rest.Config {
	f.t.Helper()
	user := f.namespace + "-" + name
	if !f.rights[user] {
		f.rights[user] = true
		namespace, cluster := f.rules()
		require.NoError(f.t, f.cp.Grant(f.t.Context(), user, f.namespace, namespace...))
		if len(cluster) > 0 {
			require.NoError(f.t, f.cp.Grant(f.t.Context(), user, "", cluster...))
		}
	}
	return f.cp.User(user)
}

// start starts a replica.
func (f *fleet) start(name string, args ...string) *e2e.Process {
	f.t.Helper()
	return f.startAs(f.user(name), name, args...)
}

// startAs starts a replica with the client configuration given.
func (f *fleet) startAs(config *rest.Config, name string, args ...string) *e2e.Process {
	f.t.Helper()
	command := f.command(config, name, args...)
	command.Path = f.program
	if command.Path == "" {
		program, err := shared.Program(f.t.Context(), "./replica", f.build...)
		require.NoError(f.t, err)
		command.Path = program
	}
	p, err := f.cp.Run(command)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = p.Kill() })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.processes[name] = p
	return p
}

func (f *fleet) command(config *rest.Config, name string, args ...string) e2e.Command {
	f.t.Helper()
	kubeconfig, err := f.cp.Kubeconfig(config)
	require.NoError(f.t, err)
	all := []string{
		"-kubeconfig", kubeconfig, "-namespace", f.namespace, "-identity", name, "-lease-duration",
		f.duration.String(),
	}
	for _, k := range f.kinds {
		all = append(all, k.flag())
	}
	for _, k := range f.children {
		all = append(all, "-child="+k.name())
	}
	return e2e.Command{
		Name: f.namespace + "-" + name,
		Args: append(all, args...),
		// The race detector otherwise waits a second before it lets a process exit.
		Env:    []string{"GORACE=halt_on_error=1 atexit_sleep_ms=0"},
		OnLine: func(text string) { f.note(name, text) },
		// Signals are then for the replica, not for its supervisor.
		Supervised: slices.Contains(args, "-supervised"),
	}
}

// restart kills a replica, if it still runs, and starts it again.
func (f *fleet) restart(p *e2e.Process) {
	f.t.Helper()
	require.NoError(f.t, p.Kill())
	f.referee.died(f.nameOf(p), f.requireEnd(p).At)
	require.NoError(f.t, p.Restart())
}

func (f *fleet) nameOf(p *e2e.Process) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, q := range f.processes {
		if p == q {
			return name
		}
	}
	f.t.Fatal("not a replica of the fleet")
	return ""
}

// lease returns the lease of a shard.
func (f *fleet) lease(shard string) *coordinationv1.Lease {
	f.t.Helper()
	l, err := f.client.CoordinationV1().Leases(f.namespace).Get(f.t.Context(), shard, metav1.GetOptions{})
	require.NoError(f.t, err)
	return l
}

// requireEnd waits for the end of a replica.
func (f *fleet) requireEnd(p *e2e.Process) e2e.Exit {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), f.patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(f.t, err)
	return exit
}

// requireExit waits for a replica to exit.
func (f *fleet) requireExit(p *e2e.Process, code int) e2e.Exit {
	f.t.Helper()
	exit := f.requireEnd(p)
	require.Equal(f.t, strconv.Itoa(code), strconv.Itoa(exit.Code), "%s: %s", exit, f.log(p))
	return exit
}
