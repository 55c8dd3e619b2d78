package run_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	duration = 5 * time.Second // D
	margin   = duration / 5    // M
	patience = time.Minute
)

// cluster is several bellwethers that contend for one Lease.
type cluster struct {
	t                   *testing.T
	namespace           string
	bellwether, program string
	before              []string // arguments before those of bellwether
	gauge               *e2e.Gauge

	mu    sync.Mutex
	terms []*term

	started time.Time // when the first bellwether was started
}

// term is one run of the program.
type term struct {
	replica, number, token, identity, lease, uid string

	at         time.Time // when its first line came
	acts       []time.Time
	terminated []time.Time // when the program, or its child, got SIGTERM
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	client, err := kubernetes.NewForConfig(shared.Admin())
	require.NoError(t, err)
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "run-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	c := &cluster{t: t, namespace: namespace.Name, gauge: e2e.NewGauge(t, shared, namespace.Name)}
	c.bellwether, err = shared.Program(t.Context(), bellwether)
	require.NoError(t, err)
	c.program, err = shared.Program(t.Context(), "./program")
	require.NoError(t, err)
	return c
}

// start starts a bellwether with these flags. Those after "--" are of the program.
func (c *cluster) start(name string, config *rest.Config, flags ...string) *e2e.Process {
	c.t.Helper()
	of := []string{}
	if i := slices.Index(flags, "--"); i >= 0 {
		flags, of = flags[:i], flags[i+1:]
	}
	return c.run(name, config, slices.Concat(flags, []string{"--", c.program, "-name", name}, of)...)
}

func (c *cluster) run(name string, config *rest.Config, arguments ...string) *e2e.Process {
	c.t.Helper()
	kubeconfig, err := shared.Kubeconfig(config)
	require.NoError(c.t, err)
	if c.started.IsZero() {
		c.started = time.Now()
	}
	p, err := shared.Run(e2e.Command{
		Name: c.namespace + "-" + name, Path: c.bellwether, Supervised: true, OnLine: c.note,
		Args: slices.Concat(c.before, []string{
			"run", "--kubeconfig", kubeconfig, "--namespace", c.namespace, "--lease", "l",
			"--duration", duration.String(), "--identity", name,
		}, arguments),
	})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = p.Kill() })
	return p
}

func (c *cluster) note(line string) {
	now, words := time.Now(), strings.Fields(line)
	if len(words) == 0 {
		words = []string{line}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(words) == 7 && words[0] == "begin" {
		c.terms = append(c.terms, &term{
			replica: words[1], number: words[2], token: words[3], identity: words[4], lease: words[5], uid: words[6],
			at: now,
		})
		return
	}
	nanoseconds, err := strconv.ParseInt(words[len(words)-1], 10, 64)
	if len(words) != 3 || err != nil {
		c.t.Errorf("not a line of the program: %q", line)
		return
	}
	for _, t := range slices.Backward(c.terms) {
		if t.replica != words[1] {
			continue
		}
		switch at := time.Unix(0, nanoseconds); words[0] {
		case "act":
			t.acts = append(t.acts, at)
		case "SIGTERM":
			t.terminated = append(t.terminated, at)
		}
		return
	}
}

// term waits for the nth term and its first act, and returns it as it is now.
func (c *cluster) term(n int) (found term) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.terms) < n || len(c.terms[n-1].acts) == 0 {
			return false
		}
		found = *c.terms[n-1]
		found.acts = slices.SortedFunc(slices.Values(found.acts), time.Time.Compare)
		return true
	}, patience, 10*time.Millisecond, "term %d", n)
	return found
}

// slack returns how much later than planned a program may act for the first time, if it was planned
// since this time: besides the writes, a program has to be started. The start of the first bellwether
// and its program shows how long that takes here.
func (c *cluster) slack(since time.Time) time.Duration {
	c.t.Helper()
	return c.gauge.Slack(since) + 2*c.term(1).first().Sub(c.started)
}

func (t term) first() time.Time { return t.acts[0] }
func (t term) last() time.Time  { return t.acts[len(t.acts)-1] }

// exit waits for the end of a process, and returns its exit code.
func (c *cluster) exit(p *e2e.Process) int {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(c.t, err)
	return exit.Code
}

func TestProgramsTakeTurns(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.start("a", shared.Admin())
	first := c.term(1)
	c.start("b", shared.Admin())
	before := time.Now()
	require.NoError(t, a.Terminate())
	second := c.term(2)
	assert.Equal(t, 0, c.exit(a)) // all its lines are read
	first = c.term(1)
	assert.Len(t, first.terminated, 1)
	assert.True(t, second.first().After(first.last()))
	assert.Less(t, second.first().Sub(before), margin+c.slack(before), "no Margin, for nothing was killed")

	assert.Equal(t, []string{"a", "b"}, []string{first.identity, second.identity})
	assert.Equal(t, []string{"0", "1"}, []string{first.number, second.number})
	assert.Equal(t, c.namespace+"/l", second.lease)
	assert.Equal(t, first.uid, second.uid)
	one, err := strconv.Atoi(first.token)
	require.NoError(t, err)
	two, err := strconv.Atoi(second.token)
	require.NoError(t, err)
	assert.Greater(t, two, one)
}

func TestNothingSurvivesTheTerm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags []string
		code  int
	}{
		"a program and its child that ignore SIGTERM": {[]string{"--grace=300ms", "--", "-stubborn"}, 137},
		"a child that is left behind": {
			[]string{"--grace=300ms", "--", "-leave", "-exit-after=1s", "-exit-code=7"}, 7,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newCluster(t)
			a := m.start("a", shared.Admin(), c.flags...)
			m.term(1)
			m.start("b", shared.Admin())
			require.NoError(t, a.Terminate())
			second := m.term(2)
			assert.Equal(t, c.code, m.exit(a))
			first := m.term(1)
			assert.GreaterOrEqual(t, second.first().Sub(first.last()), margin-20*time.Millisecond)
		})
	}
}

// What is killed has requests under way for a Margin.
func TestProgramDiesWithBellwether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		strike func(p *e2e.Process) error
		within time.Duration
	}{
		"bellwether is killed": {func(p *e2e.Process) error { return p.Signal(syscall.SIGKILL) }, margin},
		"its supervisor is killed": {
			func(p *e2e.Process) error { return syscall.Kill(p.Pid(), syscall.SIGKILL) }, duration,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newCluster(t)
			a := m.start("a", shared.Admin())
			m.term(1)
			m.start("b", shared.Admin())
			struck := time.Now()
			require.NoError(t, c.strike(a))
			second := m.term(2)
			m.exit(a)
			first := m.term(1)
			assert.GreaterOrEqual(t, second.first().Sub(first.last()), margin-20*time.Millisecond)
			assert.Less(t, second.first().Sub(struck), c.within+m.slack(struck))
			assert.Less(t, first.last().Sub(struck), m.gauge.Slack(struck))
		})
	}
}

func TestStoppedBellwether(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"a program": nil, "and a child in another session": {"--", "-leave"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			a := c.start("a", shared.Admin(), flags...)
			c.term(1)
			c.start("b", shared.Admin())
			stopped := time.Now()
			require.NoError(t, a.Signal(syscall.SIGSTOP))
			second := c.term(2)
			assert.Equal(t, 137, c.exit(a))
			first := c.term(1)
			assert.GreaterOrEqual(t, second.first().Sub(first.last()), margin/2-20*time.Millisecond)
			assert.LessOrEqual(t, first.last().Sub(stopped), duration-margin/2+c.gauge.Slack(stopped))
		})
	}
}

// The network fails. A program that heeds SIGTERM ends before the deadline, another one at it.
func TestProgramEndsBeforeTheLeaseExpires(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-stubborn=false", "-stubborn"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			network, err := shared.Proxy()
			require.NoError(t, err)
			a := c.start("a", network.Config(shared.Admin()), "--", flag)
			c.term(1)
			c.start("b", shared.Admin())
			cut := time.Now()
			network.Cut()
			second := c.term(2)
			assert.Equal(t, 75, c.exit(a))
			first := c.term(1)
			require.NotEmpty(t, first.terminated)
			assert.Less(t, first.terminated[0].Sub(cut), duration-margin+c.gauge.Slack(cut))
			assert.LessOrEqual(t, first.last().Sub(cut), duration-margin+c.gauge.Slack(cut))
			assert.GreaterOrEqual(t, second.first().Sub(first.last()), margin-20*time.Millisecond)
		})
	}
}

func TestHealthCommandFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ill := filepath.Join(t.TempDir(), "ill")
	a := c.start("a", shared.Admin(), "--health-command", "test ! -e '"+ill+"'")
	c.term(1)
	c.start("b", shared.Admin())
	require.NoError(t, os.WriteFile(ill, nil, 0o600))
	second := c.term(2)
	assert.Equal(t, "b", second.replica)
	assert.True(t, second.first().After(c.term(1).last()))
	assert.Equal(t, 75, c.exit(a))
}

// The reader of standard error has stopped, and it is full. The term, its end, and the next one do not
// wait for it.
func TestAFullStandardErrorHoldsNothingUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(t *testing.T, p *e2e.Process)
		code int
	}{
		"the program ends": {func(*testing.T, *e2e.Process) {}, 7},
		"bellwether is killed": {
			func(t *testing.T, p *e2e.Process) { require.NoError(t, p.Signal(syscall.SIGKILL)) }, 137,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newCluster(t)
			pipe := filepath.Join(t.TempDir(), "pipe")
			require.NoError(t, syscall.Mkfifo(pipe, 0o600))
			bellwether := m.bellwether
			m.bellwether = "/bin/sh"
			m.before = []string{
				"-c", `exec 2<>"$0"; head -c 65536 /dev/zero >&2; exec "$@"`, pipe, bellwether,
			}
			a := m.start("a", shared.Admin(), "--", "-exit-after=2s", "-exit-code=7")
			m.term(1)
			m.bellwether, m.before = bellwether, nil
			m.start("b", shared.Admin())
			c.end(t, a)
			assert.Equal(t, c.code, m.exit(a))
			second := m.term(2)
			assert.Less(t, second.first().Sub(m.term(1).last()), duration-margin+m.slack(m.term(1).last()))
		})
	}
}

// A candidate has no program that a signal could be for. The program of its term does not get it.
func TestSignalsToACandidateAreNotForItsProgram(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.start("a", shared.Admin())
	c.term(1)
	user := c.namespace + "-b"
	b := c.start("b", shared.User(user, "system:masters"))
	require.Eventually(t, func() bool {
		events, err := shared.Audit()
		return assert.NoError(t, err) && slices.ContainsFunc(events, func(e e2e.AuditEvent) bool {
			return e.User == user && e.Resource == "leases"
		})
	}, patience, 10*time.Millisecond, "a candidate")
	require.NoError(t, b.Signal(syscall.SIGHUP)) // others end it
	require.NoError(t, a.Terminate())
	began := c.term(2).first()
	require.Eventually(t, func() bool { return c.term(2).last().Sub(began) > time.Second },
		patience, 10*time.Millisecond, "the program goes on")
	require.NoError(t, b.Signal(syscall.SIGHUP))
	assert.Equal(t, 129, c.exit(b), "this one is for the program")
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("not a program"), 0o600))
	for name, of := range map[string]struct {
		arguments []string
		code      int
	}{
		"its own":        {[]string{"--", "/bin/sh", "-c", "exit 3"}, 3},
		"success":        {[]string{"--", "/bin/true"}, 0},
		"a signal":       {[]string{"--", "/bin/sh", "-c", "kill -ABRT $$"}, 134},
		"not found":      {[]string{"--", "no-such-program"}, 127},
		"not executable": {[]string{"--", text}, 126},
		"no program":     {nil, 64},
		"a bad duration": {[]string{"--duration=1s", "--", "/bin/true"}, 64},
		"a bad flag":     {[]string{"--no-such-flag"}, 64},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.run(strings.ReplaceAll(name, " ", "-"), shared.Admin(), of.arguments...)
			assert.Equal(t, of.code, c.exit(p))
		})
	}
}
