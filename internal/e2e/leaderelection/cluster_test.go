package leaderelection_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
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
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// The timing of most tests: D = 5 s, so M = 1 s and R = 1 s.
const (
	duration = 5 * time.Second
	usable   = 4 * time.Second // D - M
	interval = 1 * time.Second

	patience = time.Minute // for what has no bound of its own
	poll     = 20 * time.Millisecond
)

// verbs is what the package documentation says an elector needs.
var verbs = []string{"create", "get", "update", "watch"}

// cluster is the replicas that contend for one Lease, as processes, and the referee's journal of what
// they did.
type cluster struct {
	t         *testing.T
	cp        *e2e.ControlPlane
	namespace string
	duration  time.Duration
	gauge     *e2e.Gauge
	program   string // that replicas run; empty: the one of this commit

	mu    sync.Mutex
	terms []*term // in the order in which they began
}

// term is one call of a replica's work function. Times are the replica's; all replicas share one
// machine and clock.
type term struct {
	replica    string
	first, end time.Time // of the acts
	acts       []time.Time
}

func newCluster(t *testing.T, cp *e2e.ControlPlane) *cluster {
	t.Helper()
	namespace, err := cp.Namespace(t.Context(), "cluster")
	require.NoError(t, err)
	return &cluster{t: t, cp: cp, namespace: namespace, duration: duration, gauge: e2e.NewGauge(t, cp, namespace)}
}

// user returns the client configuration of a replica's own user, with the right to these verbs on
// leases.
func (c *cluster) user(name string, verbs ...string) *rest.Config {
	c.t.Helper()
	user := c.namespace + "-" + name
	require.NoError(c.t, c.cp.Grant(c.t.Context(), user, c.namespace,
		rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: verbs}))
	return c.cp.User(user)
}

// start starts a replica with all rights.
func (c *cluster) start(name string, args ...string) *e2e.Process {
	c.t.Helper()
	return c.startAs(c.user(name, verbs...), name, args...)
}

// startAs starts a replica with the client configuration given.
func (c *cluster) startAs(config *rest.Config, name string, args ...string) *e2e.Process {
	c.t.Helper()
	return c.run("./replica", config, name, args...)
}

// run starts a program that takes the flags of a replica.
func (c *cluster) run(pkg string, config *rest.Config, name string, args ...string) *e2e.Process {
	c.t.Helper()
	p, err := c.cp.Run(c.command(pkg, config, name, args...))
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = p.Kill() })
	return p
}

// command is how to start such a program, built with the race detector.
func (c *cluster) command(pkg string, config *rest.Config, name string, args ...string) e2e.Command {
	c.t.Helper()
	program := c.program
	if program == "" {
		built, err := shared.Program(c.t.Context(), pkg, e2e.Race()...)
		require.NoError(c.t, err)
		program = built
	}
	kubeconfig, err := c.cp.Kubeconfig(config)
	require.NoError(c.t, err)
	return e2e.Command{
		Name: c.namespace + "-" + name,
		Path: program,
		Args: append([]string{
			"-kubeconfig", kubeconfig, "-namespace", c.namespace, "-identity", name,
			"-lease-duration", c.duration.String(),
		}, args...),
		// The race detector otherwise waits a second before it lets a process exit.
		Env:    []string{"GORACE=halt_on_error=1 atexit_sleep_ms=0"},
		OnLine: func(line string) { c.note(name, line) },
	}
}

func (c *cluster) note(replica, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if line == "begin" {
		c.terms = append(c.terms, &term{replica: replica})
		return
	}
	nanoseconds, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		c.t.Errorf("%s printed %q", replica, line)
		return
	}
	for i := len(c.terms) - 1; i >= 0; i-- {
		if last := c.terms[i]; last.replica == replica {
			last.acts = append(last.acts, time.Unix(0, nanoseconds))
			last.first, last.end = last.acts[0], last.acts[len(last.acts)-1]
			return
		}
	}
}

// term returns what the journal says of the n-th term, counted from 1, once it has begun to act.
func (c *cluster) term(n int) term {
	c.t.Helper()
	var found term
	require.Eventually(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.terms) < n || len(c.terms[n-1].acts) == 0 {
			return false
		}
		found = *c.terms[n-1]
		return true
	}, patience, poll, "term %d does not begin", n)
	return found
}

// journal returns the replicas of all terms so far.
func (c *cluster) journal() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var replicas []string
	for _, t := range c.terms {
		replicas = append(replicas, t.replica)
	}
	return replicas
}

// acted returns when a replica acted.
func (c *cluster) acted(replica string) []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	var acts []time.Time
	for _, t := range c.terms {
		if t.replica == replica {
			acts = append(acts, t.acts...)
		}
	}
	return acts
}

// requireRunnerUp starts a replica when there is a leader, and returns when it watches it.
func (c *cluster) requireRunnerUp(name string) *e2e.Process {
	c.t.Helper()
	c.term(1)
	p := c.start(name)
	c.requireWatching(name)
	return p
}

// requireWatching returns when a replica is a candidate that watches.
func (c *cluster) requireWatching(replica string) { c.requireWatchingSince(replica, time.Time{}) }

// requireWatchingSince returns when a replica has opened a watch after a time, and read the record
// after that.
func (c *cluster) requireWatchingSince(replica string, since time.Time) {
	c.t.Helper()
	c.requireAudited(replica, since, "watch 200", 1)
	c.requireAudited(replica, since, "get 200", 1)
}

// requireRenewal returns when the record has been renewed once more.
func (c *cluster) requireRenewal() {
	c.t.Helper()
	before := c.lease().ResourceVersion
	require.Eventually(c.t, func() bool { return c.lease().ResourceVersion != before }, patience, interval/4,
		"no renewal")
}

// requireEnd waits for the end of a replica.
func (c *cluster) requireEnd(p *e2e.Process) e2e.Exit {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
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

// requireOneLeader is the referee's verdict: no two terms overlap.
func (c *cluster) requireOneLeader() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, a := range c.terms {
		for _, b := range c.terms[i+1:] {
			assert.False(c.t, a.first.Before(b.end) && b.first.Before(a.end),
				"two leaders: %s acted from %s to %s, %s from %s to %s",
				a.replica, a.first, a.end, b.replica, b.first, b.end)
		}
	}
}

// requireLog waits until a replica has said something.
func (c *cluster) requireLog(p *e2e.Process, text string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return strings.Contains(c.log(p), text) }, patience, poll, "never said %q",
		text)
}

func (c *cluster) log(p *e2e.Process) string {
	c.t.Helper()
	text, err := os.ReadFile(p.Log())
	require.NoError(c.t, err)
	return string(text)
}

func (c *cluster) client() kubernetes.Interface {
	c.t.Helper()
	client, err := kubernetes.NewForConfig(c.cp.Admin())
	require.NoError(c.t, err)
	return client
}

func (c *cluster) lease() *coordinationv1.Lease {
	c.t.Helper()
	l, err := c.client().CoordinationV1().Leases(c.namespace).Get(c.t.Context(), "l", metav1.GetOptions{})
	require.NoError(c.t, err)
	return l
}

// audited returns when a replica's user made requests since a time, by verb and status: "get 200".
func (c *cluster) audited(replica string, since time.Time) map[string][]time.Time {
	c.t.Helper()
	events, err := c.cp.Audit()
	require.NoError(c.t, err)
	requests := map[string][]time.Time{}
	for _, e := range events {
		if e.User == c.namespace+"-"+replica && e.Received.After(since) {
			kind := fmt.Sprintf("%s %d", e.Verb, e.Code)
			requests[kind] = append(requests[kind], e.Received)
		}
	}
	return requests
}

// requireAudited waits until a replica has made requests of one kind at least n times since a time,
// and returns when.
func (c *cluster) requireAudited(replica string, since time.Time, kind string, n int) []time.Time {
	c.t.Helper()
	var times []time.Time
	require.Eventually(c.t, func() bool {
		times = c.audited(replica, since)[kind]
		return len(times) >= n
	}, patience, 2*poll, "%s: want %q %d times", replica, kind, n)
	return times
}
