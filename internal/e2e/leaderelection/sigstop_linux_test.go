package leaderelection_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	writers = 8 // of each replica
	trials  = 5 // of each kind per run
)

// TestWritesOfAStoppedLeader stops leaders while they write, until a successor has written, and
// counts what the API server takes from them afterwards. It is not parallel: its writers take all
// the CPU that there is.
func TestWritesOfAStoppedLeader(t *testing.T) {
	var mu sync.Mutex
	var stale []int // per trial with the guard alone
	e2e.Repeat(t, func(t *testing.T) {
		cp := e2e.Start(t, e2e.Options{}) // of its own: other tests read all of the audit log
		for n := range trials {           // a few at a time: a leader must hold its lease until it is stopped
			t.Run(fmt.Sprintf("trial %d", n), func(t *testing.T) {
				t.Run("kernel deadline", func(t *testing.T) {
					t.Parallel()
					stopWithKernelDeadline(t, cp)
				})
				t.Run("guard alone", func(t *testing.T) {
					t.Parallel()
					count := stopWithGuardAlone(t, cp)
					mu.Lock()
					defer mu.Unlock()
					stale = append(stale, count)
				})
			})
		}
	})
	total := 0
	for _, count := range stale {
		total += count
	}
	report := fmt.Sprintf("guard alone: %d stale writes of %d writers in %d trials: %v", total, writers, len(stale),
		stale)
	t.Log(report)
	if os.Getenv(e2e.SoakEnv) != "" {
		fmt.Println("soak:", report) // a log would be shown only on failure
	}
}

// stopWithKernelDeadline proves that a stopped leader is dead before its successor begins, so that
// nothing is left to write.
func stopWithKernelDeadline(t *testing.T, cp *e2e.ControlPlane) {
	c := newCluster(t, cp)
	l := newLedger(c)
	leader := l.start("a", "-kernel-deadline")
	l.requireWrite("a")
	// looks whether the leader is dead
	candidate := l.start("b", "-kernel-deadline", "-after", strconv.Itoa(leader.Pid()))
	c.requireWatching("b")
	require.NoError(t, leader.Pause(), "%s", c.log(leader))
	stopped := time.Now()

	l.requireWrite("b")
	next := c.term(2)
	exit := c.requireEnd(leader)
	assert.Equal(t, syscall.SIGKILL, exit.Signal, "%s: %s", exit, c.log(leader))
	t.Logf("seen to be dead %v after it was stopped, %v before the successor's first act", exit.At.Sub(stopped),
		next.first.Sub(exit.At))
	assert.ErrorIs(t, leader.Resume(), os.ErrProcessDone)
	c.requireOneLeader()

	require.NoError(t, candidate.Terminate())
	c.requireExit(candidate, 0)
	assert.Zero(t, l.stale("a", "b"))
}

// stopWithGuardAlone returns how many writes the API server took from a leader after its
// successor's first. When it is resumed nothing but the guard stops its writers: the process goes
// on, and they ignore the end of their context.
func stopWithGuardAlone(t *testing.T, cp *e2e.ControlPlane) int {
	c := newCluster(t, cp)
	l := newLedger(c)
	leader := l.start("a", "-stay")
	l.requireWrite("a")
	candidate := l.start("b")
	c.requireWatching("b")
	require.NoError(t, leader.Pause())
	l.requireWrite("b")
	require.NoError(t, leader.Resume())
	c.requireLog(leader, "staying") // all of its writers have been refused
	require.NoError(t, leader.Terminate())
	c.requireExit(leader, 1)
	require.NoError(t, candidate.Terminate())
	c.requireExit(candidate, 0)
	assert.Equal(t, []string{"a", "b"}, c.journal())

	stale := l.stale("a", "b")
	// A writer has one request under way. It may be between the guard and the connection when it is
	// stopped; the next one finds the term over.
	assert.LessOrEqual(t, stale, writers)
	return stale
}

// ledger lists the authors of the accepted writes, in the order of their resourceVersions.
type ledger struct {
	*cluster
	client kubernetes.Interface

	mu      sync.Mutex
	entries []string // the writers' identities
}

// newLedger creates what the replicas write to: one object per writer, the same for every replica,
// so that a stale write overwrites the successor's.
func newLedger(c *cluster) *ledger {
	c.t.Helper()
	l := &ledger{cluster: c, client: c.client()}
	objects := l.client.CoreV1().ConfigMaps(c.namespace)
	for n := range writers {
		_, err := objects.Create(c.t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("work-%d", n)}}, metav1.CreateOptions{})
		require.NoError(c.t, err)
	}
	list, err := objects.List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	e2e.Follow(c.t, list.ResourceVersion, objects.Watch, func(e watch.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.entries = append(l.entries, e.Object.(*corev1.ConfigMap).Data["by"])
	})
	return l
}

// start starts a replica with writers.
func (l *ledger) start(name string, args ...string) *e2e.Process {
	l.t.Helper()
	config := l.user(name, verbs...)
	require.NoError(l.t, l.cp.Grant(l.t.Context(), l.namespace+"-"+name, l.namespace,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"patch"}}))
	return l.startAs(config, name, append([]string{"-writers", fmt.Sprint(writers)}, args...)...)
}

// requireWrite waits for a write.
func (l *ledger) requireWrite(by string) {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.Contains(l.entries, by)
	}, patience, poll, "%s does not write", by)
}

// stale returns how many writes of the one are after the first of the other.
func (l *ledger) stale(one, other string) int {
	l.t.Helper()
	const mark = "referee" // all entries before it are there when it is
	_, err := l.client.CoreV1().ConfigMaps(l.namespace).Patch(l.t.Context(), "work-0", types.MergePatchType,
		fmt.Appendf(nil, `{"data":{"by":%q}}`, mark), metav1.PatchOptions{})
	require.NoError(l.t, err)
	l.requireWrite(mark)
	l.mu.Lock()
	defer l.mu.Unlock()
	count := 0
	for _, by := range l.entries[slices.Index(l.entries, other):] {
		if by == one {
			count++
		}
	}
	return count
}
