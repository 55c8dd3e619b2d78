package shardlease_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

const (
	duration = 5 * time.Second // D of most shards

	patience = time.Minute // for what has no bound of its own
	poll     = 20 * time.Millisecond
)

// verbs is what the package documentation says a shard needs.
var verbs = []string{"create", "get", "update", "watch"}

// cluster is the processes of one shard, whose identity is "a", a sharder's view of it, and the
// referee's journal of what they did.
type cluster struct {
	t         *testing.T
	namespace string
	client    kubernetes.Interface // an admin's
	clock     shardlease.Clock

	mu    sync.Mutex
	terms []*term // in the order in which they began
}

// term is one call of a process' work function. All processes share one machine and clock.
type term struct {
	process     string
	epoch       string
	first, last int64 // acts
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	namespace, err := shared.Namespace(t.Context(), "cluster")
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(shared.Admin())
	require.NoError(t, err)
	return &cluster{t: t, namespace: namespace, client: client, clock: clock.System()}
}

// start starts a process with all rights.
func (c *cluster) start(name string, args ...string) *e2e.Process {
	c.t.Helper()
	require.NoError(c.t, shared.Grant(c.t.Context(), c.namespace+"-"+name, c.namespace,
		rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: verbs}))
	return c.startAs(name, args...)
}

// startAs starts a process with the rights that it has.
func (c *cluster) startAs(name string, args ...string) *e2e.Process {
	c.t.Helper()
	program, err := shared.Program(c.t.Context(), "./replica", e2e.Race()...)
	require.NoError(c.t, err)
	kubeconfig, err := shared.Kubeconfig(shared.User(c.namespace + "-" + name))
	require.NoError(c.t, err)
	p, err := shared.Run(e2e.Command{
		Name: c.namespace + "-" + name, Path: program,
		Args: append([]string{
			"-kubeconfig", kubeconfig, "-namespace", c.namespace, "-identity", "a", "-lease-duration",
			duration.String(),
		}, args...),
		// it otherwise waits a second before it lets a process exit
		Env:    []string{"GORACE=halt_on_error=1 atexit_sleep_ms=0"},
		OnLine: func(line string) { c.note(name, line) },
	})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = p.Kill() })
	return p
}

func (c *cluster) note(process, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var at int64
	if _, err := fmt.Sscanf(line, "act %d", &at); err == nil {
		for _, t := range slices.Backward(c.terms) {
			if t.process != process {
				continue
			}
			if t.first == 0 {
				t.first = at
			}
			t.last = at
			return
		}
	}
	epoch, ok := strings.CutPrefix(line, "begin ")
	if !ok {
		c.t.Errorf("%s printed %q", process, line)
		return
	}
	c.terms = append(c.terms, &term{process: process, epoch: epoch})
}

// requireTerm returns the n-th term, counted from 1, once it has begun to act.
func (c *cluster) requireTerm(n int) term {
	c.t.Helper()
	var found term
	require.Eventually(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.terms) < n || c.terms[n-1].first == 0 {
			return false
		}
		found = *c.terms[n-1]
		return true
	}, patience, poll, "term %d does not begin", n)
	return found
}

// requireOneAtATime is the referee's verdict.
func (c *cluster) requireOneAtATime() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, a := range c.terms {
		for _, b := range c.terms[i+1:] {
			assert.False(c.t, a.first < b.last && b.first < a.last, "two at once: %v and %v", *a, *b)
		}
	}
}

func (c *cluster) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.terms)
}

// requireExit waits for the end of a process.
func (c *cluster) requireExit(p *e2e.Process, code int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(c.t, err)
	require.Equal(c.t, code, exit.Code, "%v: %s", exit, c.log(p))
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

func (c *cluster) lease() *coordinationv1.Lease {
	c.t.Helper()
	l, err := c.client.CoordinationV1().Leases(c.namespace).Get(c.t.Context(), "a", metav1.GetOptions{})
	require.NoError(c.t, err)
	return l
}

// sharder is a sharder's view of the cluster's leases.
type sharder struct {
	*shardstate.Tracker
	cluster *cluster
}

func (c *cluster) sharder(collectAfter time.Duration) *sharder {
	c.t.Helper()
	r, err := shardstate.NewTracker(shardstate.Config{
		Namespace: c.namespace, Ring: "r", LeaseDuration: duration, GCPeriod: collectAfter,
	})
	require.NoError(c.t, err)
	return &sharder{r, c}
}

func (s *sharder) now() shardstate.Reading { return s.cluster.clock.Now() }

// list takes in a consistent list of the leases.
func (s *sharder) list() {
	s.cluster.t.Helper()
	list, err := s.cluster.client.CoordinationV1().Leases(s.cluster.namespace).
		List(s.cluster.t.Context(), metav1.ListOptions{LabelSelector: shardstate.Selector("r").String()})
	require.NoError(s.cluster.t, err)
	var leases []*coordinationv1.Lease
	for i := range list.Items {
		leases = append(leases, &list.Items[i])
	}
	s.List(leases, s.now())
}

// requireStates lists again and again until the shard has gone through these states.
func (s *sharder) requireStates(states ...shardstate.State) {
	s.cluster.t.Helper()
	for _, state := range states {
		require.Eventually(s.cluster.t, func() bool {
			s.list()
			return s.State("a", s.now()) == state
		}, patience, 2*poll, "never %v", state)
	}
}
