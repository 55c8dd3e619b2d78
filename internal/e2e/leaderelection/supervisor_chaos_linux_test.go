package leaderelection_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// held is how long the network holds a request at most. With the time until the API server has it,
// this must be less than M, which is 1 s.
const held = 300 * time.Millisecond

// TestChaosOfSupervisedLeaders kills leaders in all ways, again and again, while they write and the
// network holds requests back. Two referees judge: what the processes say of themselves, and what
// the API server has received.
func TestChaosOfSupervisedLeaders(t *testing.T) {
	t.Parallel()
	length := 20 * time.Second
	if soak := os.Getenv("BELLWETHER_SOAK"); soak != "" {
		var err error
		length, err = time.ParseDuration(soak)
		require.NoError(t, err)
	}
	m := newCluster(t, shared)
	const writers = 2
	for n := range writers {
		_, err := m.client().CoreV1().ConfigMaps(m.namespace).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "work-" + strconv.Itoa(n)}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	type member struct {
		process *e2e.Process
		network *e2e.Proxy
	}
	members := map[string]member{}
	for _, name := range []string{"a", "b", "c"} {
		config := m.user(name, verbs...)
		require.NoError(t, m.cp.Grant(t.Context(), m.namespace+"-"+name, m.namespace,
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"patch"}}))
		proxy, err := shared.Proxy()
		require.NoError(t, err)
		defer proxy.Close()
		c := m.command("./replica", proxy.Config(config), name, "-supervised", "-writers", strconv.Itoa(writers))
		c.Supervised = true
		p, err := m.cp.Run(c)
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Kill() })
		members[name] = member{p, proxy}
	}
	strikes := map[string]func(*e2e.Process){
		"killed":     func(p *e2e.Process) { _ = p.Signal(unix.SIGKILL) },
		"fault":      func(p *e2e.Process) { _ = p.Signal(unix.SIGSEGV) },
		"terminated": func(p *e2e.Process) { _ = p.Terminate() },
		"both killed": func(p *e2e.Process) {
			_ = unix.Kill(p.Pid(), unix.SIGKILL)
			_ = p.Signal(unix.SIGKILL)
		},
		"supervisor killed": func(p *e2e.Process) { _ = unix.Kill(p.Pid(), unix.SIGKILL) },
		"supervisor stopped for a while, leader killed": func(p *e2e.Process) {
			pid := p.Pid()
			_ = unix.Kill(pid, unix.SIGSTOP)
			_ = p.Signal(unix.SIGKILL)
			<-time.After(rand.N(2 * duration))
			_ = unix.Kill(pid, unix.SIGCONT)
		},
		"stopped for a while, then killed": func(p *e2e.Process) {
			_ = p.Signal(unix.SIGSTOP)
			<-time.After(rand.N(2 * duration))
			_ = p.Signal(syscall.SIGCONT)
			<-time.After(rand.N(duration))
			_ = p.Signal(unix.SIGKILL) // unless it has ended by itself
		},
	}
	count, restarted := map[string]int{}, map[string]time.Time{}
	released, rounds := 0, 0
	for end := time.Now().Add(length); time.Now().Before(end); rounds++ {
		for name, strike := range strikes { // any
			if rounds == 0 || rand.IntN(2) == 0 { // first, and more often than the rest
				name, strike = "killed", strikes["killed"]
			}
			leader := m.leaderSince(restarted)
			for _, other := range members {
				other.network.Delay(rand.N(held / 2)) // each way
			}
			<-time.After(rand.N(time.Second))
			count[name]++
			struck := members[leader].process
			strike(struck)
			for _, other := range members { // or a new connection would take longer than a request may
				other.network.Delay(0)
			}
			m.requireEnd(struck)
			require.NoError(t, struck.Restart())
			restarted[leader] = time.Now()
			break
		}
		if rounds%50 == 0 {
			m.requireOneLeader()
		}
	}
	for name := range members {
		p := members[name].process
		released += strings.Count(m.log(p), "was released")
		_ = p.Terminate()
		m.requireEnd(p)
	}
	m.requireOneLeader()
	writes := m.requireNoWriteInAnothersTerm()
	fmt.Printf("chaos: %d strikes (%v), %d terms, %d releases by supervisors, %d writes judged\n", rounds, count,
		len(m.journal()), released, writes)
	assert.Positive(t, released)
}

// leaderSince returns the latest leader once that is none that was restarted after its term.
func (c *cluster) leaderSince(restarted map[string]time.Time) (replica string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		latest := c.term(max(1, len(c.journal())))
		replica = latest.replica
		return latest.first.After(restarted[replica])
	}, patience, poll, "no leader after the last strike")
	return replica
}

// requireNoWriteInAnothersTerm is the verdict of the API server's audit log: it has received no write
// of a replica between the first and the last act of another one's term. It returns how many writes
// were judged.
func (c *cluster) requireNoWriteInAnothersTerm() (judged int) {
	c.t.Helper()
	events, err := c.cp.Audit()
	require.NoError(c.t, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range events {
		if e.Namespace != c.namespace || !strings.HasPrefix(e.Name, "work-") || e.Verb != "patch" ||
			e.Code != 200 {
			continue
		}
		judged++
		for _, term := range c.terms {
			if c.namespace+"-"+term.replica != e.User && term.first.Before(e.Received) && e.Received.Before(term.end) {
				assert.Fail(c.t, "two leaders", "%s wrote at %s, in a term of %s from %s to %s", e.User, e.Received,
					term.replica, term.first, term.end)
			}
		}
	}
	return judged
}
