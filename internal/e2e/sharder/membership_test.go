package sharder_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// grown returns a cluster of three that is settled, with objects. a is the sharder.
func grown(t *testing.T, args ...string) (f *cluster, a, b, c *e2e.Process) {
	t.Helper()
	f = newCluster(t)
	f.create(many)
	a = f.start("a", args...)
	f.requireSettled("a")
	b, c = f.start("b", args...), f.start("c", args...)
	f.requireSettled("a", "b", "c")
	return f, a, b, c
}

func TestNewShardGetsItsShareDrainedByTheOthers(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		c.create(many)
		c.start("a", "-write", "-work=100ms", "-pace=100ms", "-controllers=2")
		c.start("b", "-write", "-work=100ms", "-pace=100ms", "-controllers=2")
		c.requireSettled("a", "b")
		before := time.Now()
		c.start("c", "-write", "-work=100ms", "-pace=100ms", "-controllers=2")
		c.requireSettled("a", "b", "c")
		all := c.list()
		share := moved(all, []string{"a", "b"}, []string{"a", "b", "c"})
		c.requireWorkedOn(all, "a", "b", "c")
		c.requireCosts(before, share, cost{sharder: 1, shard: 1})
		c.requireOneChange(before)
		c.requireExclusion()
	})
}

func TestReleasedShardsObjectsGoToOthersAtOnce(t *testing.T) {
	t.Parallel()
	for name, leader := range map[string]bool{"a shard": false, "the sharder": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e2e.Repeat(t, func(t *testing.T) {
				c, a, b, _ := grown(t, "-write")
				ends, rest := b, []string{"a", "c"}
				if leader {
					ends, rest = a, []string{"b", "c"}
				}
				before := time.Now()
				require.NoError(t, ends.Terminate())
				c.requireExit(ends, 0)
				c.requireSettled(rest...)
				all := c.list()
				c.requireWorkedOn(all, rest...)
				c.requireCosts(before, moved(all, []string{"a", "b", "c"}, rest), cost{sharder: 1})
				c.requireOneChange(before)
				assert.Empty(t, c.leaseWrites(time.Time{}, c.nameOf(ends)), "a release needs no proof of death")
				c.requireExclusion()
			})
		})
	}
}

func TestDeadShardsObjectsGoToOthersUntilItIsBack(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c, _, b, _ := grown(t, "-write")
		all, abc := c.list(), []string{"a", "b", "c"}
		before := time.Now()
		renewed := c.lease("b").Spec.RenewTime.Time
		require.NoError(t, b.Kill())
		c.requireSettled("a", "c")
		c.requireWorkedOn(all, "a", "c")
		c.requireCosts(before, ownedBy(all, "b", abc...), cost{sharder: 1})
		c.requireOneChange(before)
		taken := c.leaseWrites(time.Time{}, "b")
		require.Len(t, taken, 1, "the lease is acquired exactly once")
		// Renew times are unique whole seconds: of two writes in one second, the second is a second ahead.
		assert.GreaterOrEqual(t, taken[0].At.Sub(renewed), 2*c.duration-time.Second, "not before it has stood for 2D")
		assert.Equal(t, shardlease.Sharder, *c.lease("b").Spec.HolderIdentity)
		c.requireExclusion()

		before = time.Now()
		c.restart(b)
		c.requireSettled(abc...)
		c.requireWorkedOn(all, abc...)
		c.requireCosts(before, ownedBy(all, "b", abc...), cost{sharder: 1, shard: 1})
		c.requireOneChange(before)
		assert.Len(t, c.leaseWrites(time.Time{}, "b"), 1, "and then left alone")
		c.requireExclusion()
	})
}

// The supervisor of a dead shard releases its lease.
func TestDeadShardsObjectsGoToOthersAtOnce(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c, _, b, _ := grown(t, "-write", "-supervised", "-min-uptime=-1ns")
		all := c.list()
		before := time.Now()
		require.NoError(t, b.Kill())
		c.requireSettled("a", "c")
		took := time.Since(before)
		t.Logf("the objects of the dead shard are others' after %v; D is %v", took, c.duration)
		c.requireWorkedOn(all, "a", "c")
		c.requireCosts(before, ownedBy(all, "b", "a", "b", "c"), cost{sharder: 1})
		assert.Empty(t, c.leaseWrites(time.Time{}, "b"), "a release needs no proof of death")
		c.requireExclusion()
	})
}

// The kubelet reports the end of a shard's container. There is no kubelet: the test writes what the
// shard would have written, and the report.
func TestObjectsOfADeadContainerGoToOthers(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c, _, b, _ := grown(t, "-write")
		all := c.list()
		pods := c.client.CoreV1().Pods(c.namespace)
		pod, err := pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pod-of-b"},
			Spec: corev1.PodSpec{
				Containers:                   []corev1.Container{{Name: "shard", Image: "none"}},
				AutomountServiceAccountToken: ptr.To(false),
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		before := time.Now()
		renewed := c.lease("b").Spec.RenewTime.Time
		require.NoError(t, b.Kill())
		const margin = time.Second
		leases := c.client.CoordinationV1().Leases(c.namespace)
		dead, err := leases.Patch(t.Context(), "b", types.MergePatchType, []byte(fmt.Sprintf(
			`{"metadata": {"annotations": {"bellwether.dev/pod": "pod-of-b/%s/%v"}}}`, pod.UID, margin)),
			metav1.PatchOptions{})
		require.NoError(t, err)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "shard", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Message: strings.Split(dead.Annotations["bellwether.dev/term"], "/")[0],
			}},
		}}
		_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		require.NoError(t, err)
		reported := time.Now()
		c.requireSettled("a", "c")
		took := time.Since(reported)
		t.Logf("the objects are others' %v after the report; the margin is %v, D is %v", took, margin, c.duration)
		assert.GreaterOrEqual(t, took, margin)
		written := c.leaseWrites(before, "b")
		require.NotEmpty(t, written)
		assert.Less(t, written[0].At.Sub(renewed), 2*c.duration, "a proof of death takes that long")
		c.requireWorkedOn(all, "a", "c")
		c.requireCosts(before, ownedBy(all, "b", "a", "b", "c"), cost{sharder: 1})
		c.requireExclusion()
	})
}

// The lease of a shard that has just begun is left alone, so that a crash loop moves no objects.
func TestShardInACrashLoopKeepsItsObjects(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		args := []string{"-supervised", "-incarnation=" + c.namespace}
		c.create(many)
		c.start("a", args...)
		b := c.start("b", args...)
		c.requireSettled("a", "b")
		all := c.list()
		before := time.Now()
		for crash := range 3 {
			require.NoError(t, b.Kill())
			c.referee.died("b", c.requireEnd(b).At)
			require.NoError(t, b.Restart())
			c.requireSaid("b", crash+1, "held")
		}
		c.requireWorkedOn(all, "a", "b")
		c.requireCosts(before, nil, cost{})
		c.requireExclusion()
	})
}

func TestDeathOfTheShardersReplica(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c, a, _, _ := grown(t)
		all := c.list()
		before := time.Now()
		require.NoError(t, a.Kill())
		c.requireSettled("b", "c")
		c.requireWorkedOn(all, "b", "c")
		c.requireCosts(before, ownedBy(all, "a", "a", "b", "c"), cost{sharder: 1})
		assert.Len(t, c.leaseWrites(time.Time{}, "a"), 1, "the lease is acquired exactly once")
		c.requireExclusion()
	})
}

// The supervisor releases the Lease of the election, too.
func TestDeathOfTheShardersReplicaWithASupervisor(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c, a, _, _ := grown(t, "-write", "-supervised", "-min-uptime=-1ns")
		all := c.list()
		before := time.Now()
		require.NoError(t, a.Kill())
		c.requireSettled("b", "c")
		took := time.Since(before)
		t.Logf("the next sharder has given the objects to others after %v; D is %v", took, c.duration)
		assert.Empty(t, c.leaseWrites(time.Time{}, "a"), "a release needs no proof of death")
		c.requireWorkedOn(all, "b", "c")
		c.requireCosts(before, ownedBy(all, "a", "a", "b", "c"), cost{sharder: 1})
		c.requireExclusion()
	})
}

func TestLeasesOfDeadShardsAreCollected(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		c.create(many)
		c.start("a", "-gc-period=1s", "-scan-interval=2s")
		b := c.start("b", "-without-sharder")
		c.requireSettled("a", "b")
		old := c.lease("b")
		require.NoError(t, b.Terminate())
		c.requireExit(b, 0)
		c.requireSaid("a", 0, "collected", "b")
		_, err := c.client.CoordinationV1().Leases(c.namespace).Get(t.Context(), "b", metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err), "%v", err)
		c.requirePlaced("a")

		before := time.Now()
		c.restart(b)
		c.requireSettled("a", "b")
		all := c.list()
		c.requireWorkedOn(all, "a", "b")
		assert.NotEqual(t, old.UID, c.lease("b").UID)
		c.requireCosts(before, ownedBy(all, "b", "a", "b"), cost{sharder: 1, shard: 1})
		assert.Len(t, c.leaseWrites(time.Time{}, "b"), 1, "the collection")
		c.requireExclusion()
	})
}

func TestRestartedContainerKeepsItsObjects(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args  []string
		waits int
	}{
		"at once, where its Pod is known":    {args: []string{"-incarnation=the-uid-of-a-pod"}},
		"when its lease has expired, if not": {waits: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e2e.Repeat(t, func(t *testing.T) {
				c := newCluster(t)
				c.create(many)
				c.start("a")
				b := c.start("b", append(test.args, "-without-sharder", "-write")...)
				c.requireSettled("a", "b")
				c.requireWorkedOn(c.list(), "a", "b")
				before, term := time.Now(), c.lease("b")
				c.restart(b)
				restarted := time.Now()
				c.requireSaid("b", 1, "held")
				c.eventually(func() bool {
					for _, p := range c.referee.pieces("b") {
						if p.begin.After(restarted) {
							return true
						}
					}
					return false
				}, "b does not work")
				assert.Equal(t, test.waits, c.said("b", "waiting"))
				assert.Equal(t, term.Annotations[shardrecord.EpochAnnotation],
					c.lease("b").Annotations[shardrecord.EpochAnnotation])
				c.requirePlaced("a", "b")
				c.requireCosts(before, nil, cost{})
				c.requireExclusion()
			})
		})
	}
}

func TestDeletedLeaseOfALiveShard(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		c.create(many)
		c.start("a")
		b := c.start("b", "-without-sharder", "-write")
		c.requireSettled("a", "b")
		before := time.Now()
		deleted := time.Now() // or soon after
		require.NoError(t,
			c.client.CoordinationV1().Leases(c.namespace).Delete(t.Context(), "b", metav1.DeleteOptions{}))
		c.requireExit(b, shardlease.ExitCodeNotHeld)
		c.requireSettled("a")
		all := c.list()
		c.requireWorkedOn(all, "a")
		c.requireCosts(before, ownedBy(all, "b", "a", "b"), cost{sharder: 1})
		taken := c.leaseWrites(before, "b")
		require.Len(t, taken, 1)
		assert.Equal(t, "create", taken[0].Verb)
		assert.GreaterOrEqual(t, taken[0].At.Sub(deleted), 2*c.duration-100*time.Millisecond, "not dead before 2D")
		c.requireExclusion()
	})
}

func TestTwoReplicasOfOneIdentity(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		c.create(many)
		c.start("sharder", "-without-shard")
		first := c.start("a", "-without-sharder", "-write")
		c.requireSettled("a")
		c.requireWorkedOn(c.list(), "a")
		before := time.Now()
		second := c.start("a-again", "-without-sharder", "-write", "-identity=a")
		c.requireLog(second, "another process of the same identity holds the lease: only one of them works")
		assert.Empty(t, c.referee.pieces("a-again"))
		require.NoError(t, first.Terminate())
		c.requireExit(first, 0)
		c.requireHeld("a-again")
		c.eventually(func() bool { return len(c.referee.pieces("a-again")) > 0 }, "the second one does not work")
		c.requireSettled("a")
		c.requireCosts(before, c.list(), cost{sharder: 1})
		c.requireExclusion()
	})
}
