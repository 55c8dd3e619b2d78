//go:build linux

package realnode_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

// fleet is several apps of each kind, and the node that most of their leaders are on.
type fleet struct {
	t       testing.TB
	node    *realnode.Node
	life    []*app // those with a leader on the node
	daemons []*app
	others  []*app // of both kinds
	ring    ring
}

func deployFleet(t testing.TB, workload string) *fleet {
	t.Helper()
	var deploying sync.WaitGroup
	life, daemons := make([]*app, 2*times()), make([]*app, 2*times())
	for i := range life {
		deploying.Go(func() { life[i] = deployLife(t) })
	}
	for i := range daemons {
		deploying.Go(func() { daemons[i] = deployDaemon(t) })
	}
	var shards ring
	deploying.Go(func() { shards = deployRing(t, workload) })
	deploying.Wait()
	if t.Failed() {
		t.FailNow()
	}
	leaders := map[string]int{}
	for _, a := range slices.Concat(life, daemons) {
		leaders[a.leader.Spec.NodeName]++
	}
	busiest := ""
	for node, n := range leaders {
		if n > leaders[busiest] {
			busiest = node
		}
	}
	f := &fleet{t: t, node: cluster.Node(busiest), ring: shards}
	for _, a := range life {
		f.sort(a, &f.life)
	}
	for _, a := range daemons {
		f.sort(a, &f.daemons)
	}
	return f
}

func (f *fleet) sort(a *app, here *[]*app) {
	if a.leader.Spec.NodeName == f.node.Name {
		*here = append(*here, a)
	} else {
		f.others = append(f.others, a)
	}
}

// elsewhere waits until others lead the daemons, and work on the objects, of the node.
func (f *fleet) elsewhere() {
	f.t.Helper()
	for _, a := range f.daemons {
		a.isSucceeded()
	}
	f.ring.allWorked(seconds())
}

// judge requires of all apps that no two processes have led at once, and of those with leaders
// elsewhere that nothing has happened to them. All objects are worked on in the end.
func (f *fleet) judge(what string) {
	f.t.Helper()
	now := seconds()
	f.ring.allWorked(now)
	f.ring.judgeWork(now)
	for _, a := range slices.Concat(f.life, f.daemons) {
		a.judge()
		a.report(what)
	}
	for _, a := range f.others {
		a.judge()
		assert.Len(f.t, a.history.reigns(), 1, "its leader is on another node")
	}
	f.t.Logf("%s: %d leaders for life and %d of daemons on %s, %d elsewhere", what, len(f.life), len(f.daemons),
		f.node.Name, len(f.others))
}

func (f *fleet) ready() {
	f.t.Helper()
	require.NoError(f.t, cluster.Ready(f.t.Context(), f.node.Name))
}

func (f *fleet) lost() {
	f.t.Helper()
	require.NoError(f.t, cluster.Lost(f.t.Context(), f.node.Name))
}

func TestNodeReboots(t *testing.T) {
	cluster.Need(t)
	f := deployFleet(t, "deployment.yaml")
	require.NoError(t, f.node.Off())
	require.NoError(t, f.node.On())
	for _, a := range f.life {
		a.leadsAgain(1)
	}
	for _, a := range f.daemons {
		a.awaitReigns(2)
	}
	f.ready()
	f.judge("reboot")
}

// A machine that stands still for longer than a node may be silent, and goes on.
func TestNodeHangs(t *testing.T) {
	cluster.Need(t)
	f := deployFleet(t, "deployment.yaml")
	require.NoError(t, f.node.Freeze())
	f.lost()
	f.elsewhere()
	require.NoError(t, f.node.Thaw())
	f.ready()
	for _, a := range f.life {
		a.stays(1, 2*time.Second)
	}
	f.judge("hangs")
}

func TestNodeLosesItsNetwork(t *testing.T) {
	cluster.Need(t)
	f := deployFleet(t, "deployment.yaml")
	require.NoError(t, f.node.Cut())
	f.lost()
	f.elsewhere()
	require.NoError(t, f.node.Heal())
	f.ready()
	for _, a := range f.life {
		a.stays(1, 2*time.Second)
	}
	f.judge("network lost")
}

// The Pod of a dead kubelet stays although it is deleted, and leads on.
func TestKubeletDies(t *testing.T) {
	cluster.Need(t)
	f := deployFleet(t, "deployment.yaml")
	require.NoError(t, f.node.StopKubelet(t.Context()))
	for _, a := range f.life {
		a.deleteLeader(nil)
	}
	f.lost()
	for _, a := range f.life {
		assert.True(t, a.alive(a.leader))
		a.stays(1, time.Second)
	}
	require.NoError(t, f.node.StartKubelet(t.Context()))
	for _, a := range f.life {
		a.isSucceeded()
	}
	f.ready()
	f.judge("dead kubelet, deleted")
}

// Somebody who has seen to it that the machine is off says so with a taint.
func TestNodeIsOutOfService(t *testing.T) {
	cluster.Need(t)
	f := deployFleet(t, "deployment.yaml")
	require.NoError(t, f.node.Off())
	f.lost()
	for _, a := range f.life {
		a.stays(1, time.Second)
	}
	f.taint(corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
	for _, a := range f.life {
		a.isSucceeded()
	}
	f.elsewhere()
	f.taint()
	require.NoError(t, f.node.On())
	f.ready()
	f.judge("off, out of service")
}

// taint replaces the taint that says that a node is out of service.
func (f *fleet) taint(taints ...corev1.Taint) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		node, err := cluster.Client.CoreV1().Nodes().Get(f.t.Context(), f.node.Name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints,
			func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeOutOfService })
		node.Spec.Taints = append(node.Spec.Taints, taints...)
		_, err = cluster.Client.CoreV1().Nodes().Update(f.t.Context(), node, metav1.UpdateOptions{})
		return err == nil
	}, patience, poll)
}

// awaitReigns waits until so many processes have led, one after the other.
func (a *app) awaitReigns(n int) {
	a.t.Helper()
	a.eventually("so many have led", func() bool { return len(a.history.reigns()) >= n })
}

// Somebody removes a node whose machine runs. The control plane then says that its Pods have failed,
// and removes them: two lead. The documentation says so.
func TestNodeIsRemovedWhileItRuns(t *testing.T) {
	cluster.Need(t)
	a := deployLife(t)
	f := &fleet{t: t, node: cluster.Node(a.leader.Spec.NodeName)}
	require.NoError(t, f.node.Cut())
	f.lost()
	a.stays(1, time.Second)
	require.NoError(t, cluster.Client.CoreV1().Nodes().Delete(t.Context(), f.node.Name, metav1.DeleteOptions{}))
	a.isSucceeded()
	a.eventually("the Pod is gone", func() bool { return a.claimed(gone) })
	assert.True(t, a.alive(a.leader))
	// The next leader may have begun after the last line of this one that is in the log by now.
	a.eventually("two lead", func() bool { return len(overlaps(a.history.reigns())) == 1 })
	for _, finding := range a.history.about(a.leader.UID) {
		assert.Contains(t, []claim{failed, ended, gone, disrupted}, finding.Claim)
		assert.True(t, finding.Alive, "%s", finding.Claim)
	}
	a.report("node removed, runs")
	require.NoError(t, f.node.Heal())
	require.NoError(t, f.node.StopKubelet(t.Context())) // kubelets register their nodes when they start
	require.NoError(t, f.node.StartKubelet(t.Context()))
	f.ready()
	a.eventually("the kubelet ends what is not its Pod any more", func() bool { return !a.alive(a.leader) })
}
