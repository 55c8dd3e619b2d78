//go:build linux

package realnode_test

import (
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

// deployDaemon deploys examples/leaderelection with its fence and waits for its leader.
func deployDaemon(t testing.TB) *app {
	a := deploy(t, "leaderelection/rbac.yaml", "leaderelection/deployment.yaml")
	a.leader = a.awaitLeader("")
	return a
}

// A rolling update replaces all Pods: each leader releases its Lease when its work has ended.
func TestRollOutOfADaemon(t *testing.T) {
	cluster.Need(t)
	t.Parallel()
	a := deployDaemon(t)
	_, err := cluster.Client.AppsV1().Deployments(a.namespace).Patch(t.Context(), "example-daemon",
		types.StrategicMergePatchType, []byte(`{"spec": {"template": {"metadata": {"labels": {"again": "yes"}}}}}`),
		metav1.PatchOptions{})
	require.NoError(t, err)
	a.eventually("a Pod of the new generation leads", func() bool {
		leader := a.awaitLeader(a.leader.UID)
		return leader.Labels["again"] == "yes"
	})
	a.judge()
	a.report("rolling update")
}

// TestContainerOfALeaderIsKilled ends a container at once, with the supervisor in it. The kubelet's
// report is the only witness.
func TestContainerOfALeaderIsKilled(t *testing.T) {
	cluster.Need(t)
	t.Parallel()
	a := deployDaemon(t)
	processes, err := realnode.Processes(a.container(a.leader))
	require.NoError(t, err)
	killed := seconds()
	require.NoError(t, syscall.Kill(slices.Min(processes), syscall.SIGKILL)) // its PID 1, and so all
	a.awaitReigns(2)
	a.requireBeforeExpiry(killed, a.history.reigns()[1].begun)
	a.judge()
	a.report("container killed")
}

// requireBeforeExpiry asserts that the next leader, which began to work at begun, did not wait until
// the Lease of a leader that died at died had expired. It may have to if the kubelet reports late.
func (a *app) requireBeforeExpiry(died, begun float64) {
	a.t.Helper()
	const duration, renewInterval, tooLate = 15, 3, 5
	for _, f := range a.history.about(a.leader.UID) {
		if f.Claim == terminated || f.Claim == lastState {
			reported := float64(f.At.UnixMicro()) / 1e6
			a.t.Logf("the kubelet reported the end after %.3f s, and the next leader worked %.3f s after the report",
				reported-died, begun-reported)
			if reported-died > tooLate {
				a.t.Log("that was too late to judge the next leader")
				return
			}
			break
		}
	}
	if at := a.history.said("released the lease of a container that has ended"); at > died && at < begun {
		a.t.Logf("a candidate released the Lease %.3f s after the death", at-died)
		return
	}
	assert.Less(a.t, begun-died, float64(duration-renewInterval), "before the Lease can have expired")
}

// A daemon that knows nothing of elections, as the entry point of its container has it run.
func TestBellwetherRunInAContainer(t *testing.T) {
	cluster.Need(t)
	t.Parallel()
	a := deploy(t, "run/rbac.yaml", "run/deployment.yaml")
	a.leader = a.awaitLeader("")
	a.deleteLeader(nil)
	a.awaitReigns(2)
	a.leader = a.awaitLeader(a.leader.UID)
	reigns := a.history.reigns()
	t.Logf("deleted: the next one began %.3f s after the last act", reigns[1].begun-reigns[0].last)
	killed := seconds()
	processes, err := realnode.Processes(a.container(a.leader))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(slices.Min(processes), syscall.SIGKILL))
	a.awaitReigns(3)
	a.requireBeforeExpiry(killed, a.history.reigns()[2].begun)
	a.judge()
}

// A rollout waits until each new Pod is ready. Candidates, which do not run the daemon, are, because
// bellwether answers the probes; and no kubelet restarts one.
func TestRollOutOfBellwetherRun(t *testing.T) {
	cluster.Need(t)
	t.Parallel()
	a := deploy(t, "run/rbac.yaml", "run/deployment.yaml")
	a.leader = a.awaitLeader("")
	a.awaitReady(3)
	_, err := cluster.Client.AppsV1().Deployments(a.namespace).Patch(t.Context(), "my-daemon",
		types.StrategicMergePatchType, []byte(`{"spec": {"template": {"metadata": {"labels": {"again": "yes"}}}}}`),
		metav1.PatchOptions{})
	require.NoError(t, err)
	a.eventually("all Pods are of the new generation", func() bool {
		pods := a.pods()
		old := func(p corev1.Pod) bool { return p.Labels["again"] != "yes" }
		return len(pods) == 3 && !slices.ContainsFunc(pods, old)
	})
	a.awaitReady(3)
	a.leader = a.awaitLeader(a.leader.UID)
	assert.Equal(t, "yes", a.leader.Labels["again"])
	for _, pod := range a.pods() {
		require.NotNil(t, pod.Spec.Containers[0].ReadinessProbe)
		require.NotNil(t, pod.Spec.Containers[0].LivenessProbe)
		assert.Zero(t, pod.Status.ContainerStatuses[0].RestartCount, pod.Name)
	}
	a.judge()
	a.report("rolling update")
}

// TestLeaderThatRunsOutOfMemory takes the memory from a container until the kernel kills the leader.
// If it leaves the supervisor alone, that releases the Lease at once; if it kills the whole
// container, the kubelet reports it.
func TestLeaderThatRunsOutOfMemory(t *testing.T) {
	cluster.Need(t)
	t.Parallel()
	a := deployDaemon(t)
	container := a.container(a.leader)
	require.NoError(t, realnode.Starve(t.Context(), container))
	a.awaitReigns(2)
	reigns := a.history.reigns()
	a.eventually("the kubelet reports it", func() bool { return a.claimed(terminated) || a.claimed(lastState) })
	a.requireBeforeExpiry(reigns[0].last, reigns[1].begun)
	a.judge()
	a.report("out of memory")
}
