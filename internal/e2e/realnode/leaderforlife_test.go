//go:build linux

package realnode_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deployLife deploys examples/leaderforlife and waits for its leader.
func deployLife(t testing.TB) *app {
	a := deploy(t, "leaderforlife/rbac.yaml", "leaderforlife/rbac-optional.yaml")
	// With more than so much in its log the kubelet evicts a Pod. Ten minutes of leading are less.
	_, err := cluster.Client.CoreV1().LimitRanges(a.namespace).Create(t.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "logs"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type:    corev1.LimitTypeContainer,
			Default: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("8Mi")},
		}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	a.apply("leaderforlife/deployment.yaml")
	a.leader = a.awaitLeader("")
	return a
}

// ways are those in which a leader ends whose node lives.
var ways = []struct {
	name   string
	end    func(a *app)
	claims []claim // what is said of its container in the end
}{
	{
		"killed, restarted in place",
		func(a *app) {
			a.signal(syscall.SIGKILL)
			a.leadsAgain(1)
		},
		[]claim{lastState, laterID, laterRestarts},
	},
	{
		"out of memory, restarted in place",
		func(a *app) {
			a.signal(syscall.SIGUSR1)
			a.leadsAgain(1)
		},
		[]claim{lastState, laterID, laterRestarts},
	},
	{
		"evicted by the kubelet, exits with 0",
		func(a *app) {
			a.signal(syscall.SIGHUP)
			a.isSucceeded()
		},
		[]claim{ended}, // Succeeded, but for kubelets that have removed the container before they read how it ended
	},
	{
		"evicted by the kubelet, ignores SIGTERM",
		func(a *app) {
			a.signal(syscall.SIGUSR2, syscall.SIGHUP)
			a.isSucceeded()
		},
		[]claim{ended},
	},
	{
		"evicted through the API",
		func(a *app) {
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.leader.Name}}
			require.NoError(a.t, cluster.Client.PolicyV1().Evictions(a.namespace).Evict(a.t.Context(), eviction))
			a.isSucceeded()
		},
		[]claim{disrupted, gone},
	},
	{
		"deleted",
		func(a *app) {
			a.deleteLeader(nil)
			a.isSucceeded()
		},
		[]claim{gone},
	},
}

func TestLeaderForLifeOnALiveNode(t *testing.T) {
	cluster.Need(t)
	for _, way := range ways {
		for i := range times() {
			t.Run(fmt.Sprintf("%s/%d", way.name, i), func(t *testing.T) {
				t.Parallel()
				a := deployLife(t)
				way.end(a)
				a.eventually(fmt.Sprint(way.claims), func() bool { return a.claimed(way.claims...) })
				a.judge()
				a.report(way.name)
			})
		}
	}
}

// A Pod that is deleted by force is gone, and its processes are not: then two lead. The documentation
// says so.
func TestForceDeletionMakesTwoLeaders(t *testing.T) {
	cluster.Need(t)
	a := deployLife(t)
	node := cluster.Node(a.leader.Spec.NodeName)
	require.NoError(t, node.StopKubelet(t.Context()))
	now := int64(0)
	a.deleteLeader(&now)
	a.isSucceeded()
	assert.Eventually(t, func() bool { return len(overlaps(a.history.reigns())) == 1 }, patience, poll)
	assert.Len(t, a.strays(), 1, "the audit log shows it too")
	a.report("deleted by force")
	require.NoError(t, node.StartKubelet(t.Context()))
	a.eventually("the kubelet ends it", func() bool { return !a.alive(a.leader) })
}

// leadsAgain waits until the same Pod leads again, after n restarts of its container.
func (a *app) leadsAgain(n int) {
	a.t.Helper()
	a.eventually("the same Pod leads again", func() bool {
		all := a.history.reigns()
		return len(all) == n+1 && all[n].pod == a.leader.UID
	})
}

// isSucceeded waits until another Pod leads.
func (a *app) isSucceeded() {
	a.t.Helper()
	next := a.awaitLeader(a.leader.UID)
	assert.NotEqual(a.t, a.leader.Name, next.Name)
}

// stays requires that no other Pod begins to lead for a while.
func (a *app) stays(reigns int, d time.Duration) {
	a.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); <-time.After(poll) {
		require.Len(a.t, a.history.reigns(), reigns)
	}
}
