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

// team is the replicas that contend for one Lease, as processes, and the referee's journal of what
// they did.
type team struct {
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

func newTeam(t *testing.T, cp *e2e.ControlPlane) *team {
	t.Helper()
	namespace, err := cp.Namespace(t.Context(), "team")
	require.NoError(t, err)
	return &team{t: t, cp: cp, namespace: namespace, duration: duration, gauge: e2e.NewGauge(t, cp, namespace)}
}

// user returns the client configuration of a replica's own user, with the right to these verbs on
// leases.
func (m *team) user(name string, verbs ...string) *rest.Config {
	m.t.Helper()
	user := m.namespace + "-" + name
	require.NoError(m.t, m.cp.Grant(m.t.Context(), user, m.namespace,
		rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: verbs}))
	return m.cp.User(user)
}

// start starts a replica with all rights.
func (m *team) start(name string, args ...string) *e2e.Process {
	m.t.Helper()
	return m.startAs(m.user(name, verbs...), name, args...)
}

// startAs starts a replica with the client configuration given.
func (m *team) startAs(config *rest.Config, name string, args ...string) *e2e.Process {
	m.t.Helper()
	return m.run("./replica", config, name, args...)
}

// run starts a program that takes the flags of a replica.
func (m *team) run(pkg string, config *rest.Config, name string, args ...string) *e2e.Process {
	m.t.Helper()
	p, err := m.cp.Run(m.command(pkg, config, name, args...))
	require.NoError(m.t, err)
	m.t.Cleanup(func() { _ = p.Kill() })
	return p
}

// command is how to start such a program, built with the race detector.
func (m *team) command(pkg string, config *rest.Config, name string, args ...string) e2e.Command {
	m.t.Helper()
	program := m.program
	if program == "" {
		built, err := shared.Program(m.t.Context(), pkg, e2e.Race()...)
		require.NoError(m.t, err)
		program = built
	}
	kubeconfig, err := m.cp.Kubeconfig(config)
	require.NoError(m.t, err)
	return e2e.Command{
		Name: m.namespace + "-" + name,
		Path: program,
		Args: append([]string{
			"-kubeconfig", kubeconfig, "-namespace", m.namespace, "-identity", name,
			"-lease-duration", m.duration.String(),
		}, args...),
		// The race detector otherwise waits a second before it lets a process exit.
		Env:    []string{"GORACE=halt_on_error=1 atexit_sleep_ms=0"},
		OnLine: func(line string) { m.note(name, line) },
	}
}

func (m *team) note(replica, line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if line == "begin" {
		m.terms = append(m.terms, &term{replica: replica})
		return
	}
	nanoseconds, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		m.t.Errorf("%s printed %q", replica, line)
		return
	}
	for i := len(m.terms) - 1; i >= 0; i-- {
		if last := m.terms[i]; last.replica == replica {
			last.acts = append(last.acts, time.Unix(0, nanoseconds))
			last.first, last.end = last.acts[0], last.acts[len(last.acts)-1]
			return
		}
	}
}

// term returns what the journal says of the n-th term, counted from 1, once it has begun to act.
func (m *team) term(n int) term {
	m.t.Helper()
	var found term
	require.Eventually(m.t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.terms) < n || len(m.terms[n-1].acts) == 0 {
			return false
		}
		found = *m.terms[n-1]
		return true
	}, patience, poll, "term %d does not begin", n)
	return found
}

// journal returns the replicas of all terms so far.
func (m *team) journal() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var replicas []string
	for _, t := range m.terms {
		replicas = append(replicas, t.replica)
	}
	return replicas
}

// acted returns when a replica acted.
func (m *team) acted(replica string) []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	var acts []time.Time
	for _, t := range m.terms {
		if t.replica == replica {
			acts = append(acts, t.acts...)
		}
	}
	return acts
}

// requireRunnerUp starts a replica when there is a leader, and returns when it watches it.
func (m *team) requireRunnerUp(name string) *e2e.Process {
	m.t.Helper()
	m.term(1)
	p := m.start(name)
	m.requireWatching(name)
	return p
}

// requireWatching returns when a replica is a candidate that watches.
func (m *team) requireWatching(replica string) { m.requireWatchingSince(replica, time.Time{}) }

// requireWatchingSince returns when a replica has opened a watch after a time, and read the record
// after that.
func (m *team) requireWatchingSince(replica string, since time.Time) {
	m.t.Helper()
	m.requireAudited(replica, since, "watch 200", 1)
	m.requireAudited(replica, since, "get 200", 1)
}

// requireRenewal returns when the record has been renewed once more.
func (m *team) requireRenewal() {
	m.t.Helper()
	before := m.lease().ResourceVersion
	require.Eventually(m.t, func() bool { return m.lease().ResourceVersion != before }, patience, interval/4,
		"no renewal")
}

// requireEnd waits for the end of a replica.
func (m *team) requireEnd(p *e2e.Process) e2e.Exit {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(m.t, err)
	return exit
}

// requireExit waits for a replica to exit.
func (m *team) requireExit(p *e2e.Process, code int) e2e.Exit {
	m.t.Helper()
	exit := m.requireEnd(p)
	require.Equal(m.t, strconv.Itoa(code), strconv.Itoa(exit.Code), "%s: %s", exit, m.log(p))
	return exit
}

// requireOneLeader is the referee's verdict: no two terms overlap.
func (m *team) requireOneLeader() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, a := range m.terms {
		for _, b := range m.terms[i+1:] {
			assert.False(m.t, a.first.Before(b.end) && b.first.Before(a.end),
				"two leaders: %s acted from %s to %s, %s from %s to %s",
				a.replica, a.first, a.end, b.replica, b.first, b.end)
		}
	}
}

// requireLog waits until a replica has said something.
func (m *team) requireLog(p *e2e.Process, text string) {
	m.t.Helper()
	require.Eventually(m.t, func() bool { return strings.Contains(m.log(p), text) }, patience, poll, "never said %q",
		text)
}

func (m *team) log(p *e2e.Process) string {
	m.t.Helper()
	text, err := os.ReadFile(p.Log())
	require.NoError(m.t, err)
	return string(text)
}

func (m *team) client() kubernetes.Interface {
	m.t.Helper()
	client, err := kubernetes.NewForConfig(m.cp.Admin())
	require.NoError(m.t, err)
	return client
}

func (m *team) lease() *coordinationv1.Lease {
	m.t.Helper()
	l, err := m.client().CoordinationV1().Leases(m.namespace).Get(m.t.Context(), "l", metav1.GetOptions{})
	require.NoError(m.t, err)
	return l
}

// audited returns when a replica's user made requests since a time, by verb and status: "get 200".
func (m *team) audited(replica string, since time.Time) map[string][]time.Time {
	m.t.Helper()
	events, err := m.cp.Audit()
	require.NoError(m.t, err)
	requests := map[string][]time.Time{}
	for _, e := range events {
		if e.User == m.namespace+"-"+replica && e.Received.After(since) {
			kind := fmt.Sprintf("%s %d", e.Verb, e.Code)
			requests[kind] = append(requests[kind], e.Received)
		}
	}
	return requests
}

// requireAudited waits until a replica has made requests of one kind at least n times since a time,
// and returns when.
func (m *team) requireAudited(replica string, since time.Time, kind string, n int) []time.Time {
	m.t.Helper()
	var times []time.Time
	require.Eventually(m.t, func() bool {
		times = m.audited(replica, since)[kind]
		return len(times) >= n
	}, patience, 2*poll, "%s: want %q %d times", replica, kind, n)
	return times
}
