package shardlease_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

func TestLifeOfAShard(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	both := []*sharder{c.sharder(0), c.sharder(0)}
	sharder, other := both[0], both[1]

	shard := c.start("a")
	first := c.requireTerm(1)
	epoch, err := shardlease.EpochOf(c.lease())
	require.NoError(t, err)
	assert.EqualValues(t, 1, epoch.Number)
	assert.Equal(t, epoch.String(), first.epoch)
	sharder.requireStates(shardstate.Ready)
	other.requireStates(shardstate.Ready)

	require.NoError(t, shard.Kill())
	sharder.requireStates(shardstate.Expired)
	assert.Equal(t, []string{"a"}, sharder.Members(sharder.now()))
	other.requireStates(shardstate.Uncertain)
	sharder.requireStates(shardstate.Uncertain)
	assert.Equal(t, shardstate.EpochActive, sharder.EpochState("a", epoch, sharder.now()), "unknown yet")

	var conflicts []error
	var mu sync.Mutex
	var acquiring sync.WaitGroup
	for range 5 {
		for _, s := range both {
			a, ok := s.Takeover("a", s.now())
			require.True(t, ok)
			acquiring.Go(func() {
				if _, err := shardstate.TakeOver(t.Context(), c.client, a); err != nil {
					mu.Lock()
					defer mu.Unlock()
					conflicts = append(conflicts, err)
				}
			})
		}
	}
	acquiring.Wait()
	require.Len(t, conflicts, 9, "exactly one")
	for _, err := range conflicts {
		assert.True(t, apierrors.IsConflict(err), "%v", err)
	}
	for _, s := range both {
		s.requireStates(shardstate.Dead)
		assert.Equal(t, shardstate.EpochEnded, s.EpochState("a", epoch, s.now()))
		assert.Empty(t, s.Members(s.now()))
		_, ok := s.Takeover("a", s.now())
		assert.False(t, ok)
	}

	require.NoError(t, shard.Restart())
	second := c.requireTerm(2)
	epoch.Number = 2
	assert.Equal(t, epoch.String(), second.epoch, "it has come back after the duration that the sharder wrote")
	sharder.requireStates(shardstate.Ready)

	require.NoError(t, shard.Terminate())
	c.requireExit(shard, 0)
	sharder.requireStates(shardstate.Dead)
	assert.Equal(t, shardstate.EpochEnded, sharder.EpochState("a", epoch, sharder.now()))

	require.NoError(t, shard.Restart())
	epoch.Number = 3
	assert.Equal(t, epoch.String(), c.requireTerm(3).epoch)
	c.requireOneAtATime()
}

// TestRestartedContainerKeepsItsEpoch would time out if the lease had to expire first.
func TestRestartedContainerKeepsItsEpoch(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	args := []string{"-incarnation", "pod-1", "-lease-duration", "1h"}
	shard := c.start("a", args...)
	first := c.requireTerm(1)
	require.NoError(t, shard.Kill())
	require.NoError(t, shard.Restart())
	second := c.requireTerm(2)
	assert.Equal(t, first.epoch, second.epoch)

	copies := c.start("b", args...) // another container of the Pod
	c.requireLog(copies, "address already in use")
	c.requireLog(copies, "waiting for the lease")
	require.NoError(t, shard.Terminate())
	c.requireExit(shard, 0)
	assert.Equal(t, "b", c.requireTerm(3).process)
	c.requireOneAtATime()
}

func TestSecondProcessOfOneIdentityWaits(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	shard := c.start("a", "-incarnation", "pod-1")
	c.requireTerm(1)
	second := c.start("b", "-incarnation", "pod-2")
	c.requireLog(second, "another process of the same identity holds the lease: only one of them works")
	c.requireLog(second, `"incarnation": "pod-1"`)
	assert.Equal(t, 1, c.count())
	require.NoError(t, shard.Pause())
	assert.Equal(t, "b", c.requireTerm(2).process)
	require.NoError(t, shard.Resume())
	c.requireExit(shard, shardlease.ExitCodeNotHeld)
	c.requireOneAtATime()
}

func TestDeletedLeaseEndsItsShard(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	sharder := c.sharder(0)
	shard := c.start("a")
	first := c.requireTerm(1)
	sharder.requireStates(shardstate.Ready)
	before := c.lease()
	epoch, err := shardlease.EpochOf(before)
	require.NoError(t, err)
	require.NoError(t, c.client.CoordinationV1().Leases(c.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}))
	deleted := sharder.now()
	c.requireExit(shard, shardlease.ExitCodeNotHeld)
	c.requireLog(shard, "the Lease was deleted")
	sharder.requireStates(shardstate.Expired)
	assert.Equal(t, shardstate.EpochActive, sharder.EpochState("a", epoch, deleted))
	sharder.requireStates(shardstate.Uncertain)
	assert.GreaterOrEqual(t, sharder.now().SinceAtLeast(deleted), 2*duration)
	assert.Equal(t, shardstate.EpochNeedsTakeover, sharder.EpochState("a", epoch, sharder.now()))

	require.NoError(t, shard.Restart())
	assert.NotEqual(t, first.epoch, c.requireTerm(2).epoch)
	a, ok := sharder.Takeover("a", sharder.now())
	require.True(t, ok)
	_, err = shardstate.TakeOver(t.Context(), c.client, a)
	require.True(t, apierrors.IsAlreadyExists(err), "%v", err)
	sharder.requireStates(shardstate.Ready)
	assert.Equal(t, shardstate.EpochEnded, sharder.EpochState("a", epoch, sharder.now()))
}

func TestLeaseOfADeadShardIsCollectedUnlessItReturns(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	sharder := c.sharder(5 * time.Second) // long enough to be seen dead
	shard := c.start("a")
	c.requireTerm(1)
	require.NoError(t, shard.Terminate())
	c.requireExit(shard, 0)
	sharder.requireStates(shardstate.Dead, shardstate.Orphaned)
	late, ok := sharder.Deletion("a", sharder.now())
	require.True(t, ok)

	require.NoError(t, shard.Restart())
	c.requireTerm(2)
	err := shardstate.Delete(t.Context(), c.client, late)
	require.True(t, apierrors.IsConflict(err), "%v", err)
	require.NoError(t, shard.Terminate())
	c.requireExit(shard, 0)

	sharder.requireStates(shardstate.Orphaned)
	last, ok := sharder.Deletion("a", sharder.now())
	require.True(t, ok)
	require.NoError(t, shardstate.Delete(t.Context(), c.client, last))
	sharder.requireStates(shardstate.Gone)
}

func TestWhatIsWrongIsSaidAtStart(t *testing.T) {
	t.Parallel()
	t.Run("no RBAC", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		shard := c.startAs("a")
		c.requireExit(shard, 1)
		c.requireLog(shard, `shardlease: not allowed to get Lease `+c.namespace+`/a: grant the verb "get" on `+
			`resource leases of API group "coordination.k8s.io" in namespace `+c.namespace)
	})
	t.Run("throttled client", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		shard := c.start("a", "-qps", "0.1")
		c.requireExit(shard, 1)
		c.requireLog(shard, "shardlease: client: must be allowed at least two requests in each renew interval of 1s "+
			"(got a limit of 0.1 per second)")
	})
	t.Run("client with client-go's limit", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		shard := c.start("a", "-qps", "5")
		c.requireTerm(1)
		c.requireLog(shard, "has a rate limit")
	})
	t.Run("another ring", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		shard := c.start("a")
		c.requireTerm(1)
		require.NoError(t, shard.Terminate())
		c.requireExit(shard, 0)
		l := c.lease()
		l.Labels[shardlease.RingLabel] = "other"
		_, err := c.client.CoordinationV1().Leases(c.namespace).Update(t.Context(), l, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.NoError(t, shard.Restart())
		c.requireExit(shard, 1)
		c.requireLog(shard, `is "other", not "r"`)
	})
}
