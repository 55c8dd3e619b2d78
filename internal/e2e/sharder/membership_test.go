package sharder_test

import (
	"fmt"
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

// grown returns a fleet of three that is settled, with objects. a is the sharder.
func grown(t *testing.T, args ...string) (f *fleet, a, b, c *e2e.Process) {
	t.Helper()
	f = newFleet(t)
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
		f := newFleet(t)
		f.create(many)
		f.start("a", "-write", "-work=100ms", "-pace=100ms", "-controllers=2")
		f.start("b", "-write", "-work=100ms", "-pace=100ms", "-controllers=2")
		f.requireSettled("a", "b")
		before := time.Now()
		f.start("c", "-write", "-work=100ms", "-pace=100ms", "-controllers=2")
		f.requireSettled("a", "b", "c")
		all := f.list()
		share := moved(all, []string{"a", "b"}, []string{"a", "b", "c"})
		f.requireWorkedOn(all, "a", "b", "c")
		f.requireCosts(before, share, cost{sharder: 1, shard: 1})
		f.requireOneChange(before)
		f.requireExclusion()
	})
}

func TestReleasedShardsObjectsGoToOthersAtOnce(t *testing.T) {
	t.Parallel()
	for name, leader := range map[string]bool{"a shard": false, "the sharder": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e2e.Repeat(t, func(t *testing.T) {
				f, a, b, _ := grown(t, "-write")
				ends, rest := b, []string{"a", "c"}
				if leader {
					ends, rest = a, []string{"b", "c"}
				}
				before := time.Now()
				require.NoError(t, ends.Terminate())
				f.requireExit(ends, 0)
				f.requireSettled(rest...)
				all := f.list()
				f.requireWorkedOn(all, rest...)
				f.requireCosts(before, moved(all, []string{"a", "b", "c"}, rest), cost{sharder: 1})
				f.requireOneChange(before)
				assert.Empty(t, f.leaseWrites(time.Time{}, f.nameOf(ends)), "a release needs no proof of death")
				f.requireExclusion()
			})
		})
	}
}

func TestDeadShardsObjectsGoToOthersUntilItIsBack(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f, _, b, _ := grown(t, "-write")
		all, abc := f.list(), []string{"a", "b", "c"}
		before := time.Now()
		renewed := f.lease("b").Spec.RenewTime.Time
		require.NoError(t, b.Kill())
		f.requireSettled("a", "c")
		f.requireWorkedOn(all, "a", "c")
		f.requireCosts(before, ownedBy(all, "b", abc...), cost{sharder: 1})
		f.requireOneChange(before)
		taken := f.leaseWrites(time.Time{}, "b")
		require.Len(t, taken, 1, "the lease is acquired exactly once")
		// Renew times are unique whole seconds: of two writes in one second, the second is a second ahead.
		assert.GreaterOrEqual(t, taken[0].At.Sub(renewed), 2*f.duration-time.Second, "not before it has stood for 2D")
		assert.Equal(t, shardlease.Sharder, *f.lease("b").Spec.HolderIdentity)
		f.requireExclusion()

		before = time.Now()
		f.restart(b)
		f.requireSettled(abc...)
		f.requireWorkedOn(all, abc...)
		f.requireCosts(before, ownedBy(all, "b", abc...), cost{sharder: 1, shard: 1})
		f.requireOneChange(before)
		assert.Len(t, f.leaseWrites(time.Time{}, "b"), 1, "and then left alone")
		f.requireExclusion()
	})
}

// The supervisor of a dead shard releases its lease.
func TestDeadShardsObjectsGoToOthersAtOnce(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f, _, b, _ := grown(t, "-write", "-supervised", "-min-uptime=-1ns")
		all := f.list()
		before := time.Now()
		require.NoError(t, b.Kill())
		f.requireSettled("a", "c")
		took := time.Since(before)
		t.Logf("the objects of the dead shard are others' after %v; D is %v", took, f.duration)
		f.requireWorkedOn(all, "a", "c")
		f.requireCosts(before, ownedBy(all, "b", "a", "b", "c"), cost{sharder: 1})
		assert.Empty(t, f.leaseWrites(time.Time{}, "b"), "a release needs no proof of death")
		f.requireExclusion()
	})
}

// The kubelet reports the end of a shard's container. There is no kubelet: the test writes what the
// shard would have written, and the report.
func TestObjectsOfADeadContainerGoToOthers(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f, _, b, _ := grown(t, "-write")
		all := f.list()
		pods := f.client.CoreV1().Pods(f.namespace)
		pod, err := pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pod-of-b"},
			Spec: corev1.PodSpec{
				Containers:                   []corev1.Container{{Name: "shard", Image: "none"}},
				AutomountServiceAccountToken: ptr.To(false),
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		before := time.Now()
		renewed := f.lease("b").Spec.RenewTime.Time
		require.NoError(t, b.Kill())
		const margin = time.Second
		leases := f.client.CoordinationV1().Leases(f.namespace)
		dead, err := leases.Patch(t.Context(), "b", types.MergePatchType, []byte(fmt.Sprintf(
			`{"metadata": {"annotations": {"bellwether.dev/pod": "pod-of-b/%s/%v"}}}`, pod.UID, margin)),
			metav1.PatchOptions{})
		require.NoError(t, err)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "shard", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Message: dead.Annotations["bellwether.dev/process"],
			}},
		}}
		_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		require.NoError(t, err)
		reported := time.Now()
		f.requireSettled("a", "c")
		took := time.Since(reported)
		t.Logf("the objects are others' %v after the report; the margin is %v, D is %v", took, margin, f.duration)
		assert.GreaterOrEqual(t, took, margin)
		written := f.leaseWrites(before, "b")
		require.NotEmpty(t, written)
		assert.Less(t, written[0].At.Sub(renewed), 2*f.duration, "a proof of death takes that long")
		f.requireWorkedOn(all, "a", "c")
		f.requireCosts(before, ownedBy(all, "b", "a", "b", "c"), cost{sharder: 1})
		f.requireExclusion()
	})
}

// The lease of a shard that has just begun is left alone, so that a crash loop moves no objects.
func TestShardInACrashLoopKeepsItsObjects(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFleet(t)
		args := []string{"-supervised", "-incarnation=" + f.namespace}
		f.create(many)
		f.start("a", args...)
		b := f.start("b", args...)
		f.requireSettled("a", "b")
		all := f.list()
		before := time.Now()
		for crash := range 3 {
			require.NoError(t, b.Kill())
			f.referee.died("b", f.requireEnd(b).At)
			require.NoError(t, b.Restart())
			f.requireSaid("b", crash+1, "held")
		}
		f.requireWorkedOn(all, "a", "b")
		f.requireCosts(before, nil, cost{})
		f.requireExclusion()
	})
}

func TestDeathOfTheShardersReplica(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f, a, _, _ := grown(t)
		all := f.list()
		before := time.Now()
		require.NoError(t, a.Kill())
		f.requireSettled("b", "c")
		f.requireWorkedOn(all, "b", "c")
		f.requireCosts(before, ownedBy(all, "a", "a", "b", "c"), cost{sharder: 1})
		assert.Len(t, f.leaseWrites(time.Time{}, "a"), 1, "the lease is acquired exactly once")
		f.requireExclusion()
	})
}

// The supervisor releases the Lease of the election, too.
func TestDeathOfTheShardersReplicaWithASupervisor(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f, a, _, _ := grown(t, "-write", "-supervised", "-min-uptime=-1ns")
		all := f.list()
		before := time.Now()
		require.NoError(t, a.Kill())
		f.requireSettled("b", "c")
		took := time.Since(before)
		t.Logf("the next sharder has given the objects to others after %v; D is %v", took, f.duration)
		assert.Empty(t, f.leaseWrites(time.Time{}, "a"), "a release needs no proof of death")
		f.requireWorkedOn(all, "b", "c")
		f.requireCosts(before, ownedBy(all, "a", "a", "b", "c"), cost{sharder: 1})
		f.requireExclusion()
	})
}

func TestLeasesOfDeadShardsAreCollected(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFleet(t)
		f.create(many)
		f.start("a", "-gc-period=1s", "-scan-interval=2s")
		b := f.start("b", "-without-sharder")
		f.requireSettled("a", "b")
		old := f.lease("b")
		require.NoError(t, b.Terminate())
		f.requireExit(b, 0)
		f.requireSaid("a", 0, "collected", "b")
		_, err := f.client.CoordinationV1().Leases(f.namespace).Get(t.Context(), "b", metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err), "%v", err)
		f.requirePlaced("a")

		before := time.Now()
		f.restart(b)
		f.requireSettled("a", "b")
		all := f.list()
		f.requireWorkedOn(all, "a", "b")
		assert.NotEqual(t, old.UID, f.lease("b").UID)
		f.requireCosts(before, ownedBy(all, "b", "a", "b"), cost{sharder: 1, shard: 1})
		assert.Len(t, f.leaseWrites(time.Time{}, "b"), 1, "the collection")
		f.requireExclusion()
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
				f := newFleet(t)
				f.create(many)
				f.start("a")
				b := f.start("b", append(test.args, "-without-sharder", "-write")...)
				f.requireSettled("a", "b")
				f.requireWorkedOn(f.list(), "a", "b")
				before, term := time.Now(), f.lease("b")
				f.restart(b)
				restarted := time.Now()
				f.requireSaid("b", 1, "held")
				f.eventually(func() bool {
					for _, p := range f.referee.pieces("b") {
						if p.begin.After(restarted) {
							return true
						}
					}
					return false
				}, "b does not work")
				assert.Equal(t, test.waits, f.said("b", "waiting"))
				assert.Equal(t, term.Annotations[shardrecord.EpochAnnotation],
					f.lease("b").Annotations[shardrecord.EpochAnnotation])
				f.requirePlaced("a", "b")
				f.requireCosts(before, nil, cost{})
				f.requireExclusion()
			})
		})
	}
}

func TestDeletedLeaseOfALiveShard(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFleet(t)
		f.create(many)
		f.start("a")
		b := f.start("b", "-without-sharder", "-write")
		f.requireSettled("a", "b")
		before := time.Now()
		deleted := time.Now() // or soon after
		require.NoError(t,
			f.client.CoordinationV1().Leases(f.namespace).Delete(t.Context(), "b", metav1.DeleteOptions{}))
		f.requireExit(b, shardlease.ExitCodeNotHeld)
		f.requireSettled("a")
		all := f.list()
		f.requireWorkedOn(all, "a")
		f.requireCosts(before, ownedBy(all, "b", "a", "b"), cost{sharder: 1})
		taken := f.leaseWrites(before, "b")
		require.Len(t, taken, 1)
		assert.Equal(t, "create", taken[0].Verb)
		assert.GreaterOrEqual(t, taken[0].At.Sub(deleted), 2*f.duration-100*time.Millisecond, "not dead before 2D")
		f.requireExclusion()
	})
}

func TestTwoReplicasOfOneIdentity(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFleet(t)
		f.create(many)
		f.start("sharder", "-without-shard")
		first := f.start("a", "-without-sharder", "-write")
		f.requireSettled("a")
		f.requireWorkedOn(f.list(), "a")
		before := time.Now()
		second := f.start("a-again", "-without-sharder", "-write", "-identity=a")
		f.requireLog(second, "another process of the same identity holds the lease: only one of them works")
		assert.Empty(t, f.referee.pieces("a-again"))
		require.NoError(t, first.Terminate())
		f.requireExit(first, 0)
		f.requireHeld("a-again")
		f.eventually(func() bool { return len(f.referee.pieces("a-again")) > 0 }, "the second one does not work")
		f.requireSettled("a")
		f.requireCosts(before, f.list(), cost{sharder: 1})
		f.requireExclusion()
	})
}
