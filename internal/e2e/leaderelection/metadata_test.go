package leaderelection_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationapply "k8s.io/client-go/applyconfigurations/coordination/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// annotate writes metadata of the Lease at every interval, and returns how to end that, which
// returns how often it has.
func (c *cluster) annotate(every time.Duration) (stop func() int) {
	ctx, cancel := context.WithCancel(c.t.Context())
	written := make(chan int, 1)
	go func() {
		n, tick := 0, time.NewTicker(every)
		defer tick.Stop()
		for ctx.Err() == nil {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/seen":"%d"}}}`, n)
			if _, err := c.client().CoordinationV1().Leases(c.namespace).Patch(ctx, "l", types.MergePatchType,
				[]byte(patch), metav1.PatchOptions{}); err == nil {
				n++
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		written <- n
	}()
	return func() int {
		cancel()
		return <-written
	}
}

// TestMetadataWriters write the Lease's annotations several times in a renew interval. The leader
// goes on, and is succeeded when it is dead.
func TestMetadataWriters(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, shared)
		leader := c.start("a")
		c.requireRunnerUp("b")
		stop := c.annotate(interval / 5)
		settled := time.Now()
		c.requireAudited("a", settled, "update 200", int(3*duration/interval)) // three leases long
		assert.Len(t, c.journal(), 1, "nothing happens")

		require.NoError(t, leader.Kill())
		killed := time.Now()
		next := c.term(2)
		assert.Equal(t, "b", next.replica)
		t.Logf("the next leader began %v after kill -9, and the Lease was annotated %d times", next.first.Sub(killed),
			stop())
		assert.GreaterOrEqual(t, next.first.Sub(c.lastWrite("a", next.first)), duration-100*time.Millisecond)
		assert.LessOrEqual(t, next.first.Sub(killed), duration+interval+c.gauge.Slack(killed))
		c.requireOneLeader()
	})
}

// TestManagedFields of a Lease end with its first renewal, unless another client has set a field.
func TestManagedFields(t *testing.T) {
	t.Parallel()
	t.Run("of the elector are given up", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, shared)
		c.start("a")
		c.requireAudited("a", time.Time{}, "update 200", 2)
		assert.Empty(t, c.lease().ManagedFields)
		stop := c.annotate(interval / 2)
		c.requireAudited("a", time.Now(), "update 200", 2)
		assert.Positive(t, stop())
		l := c.lease()
		assert.Contains(t, l.Annotations, "example.com/seen")
		assert.Empty(t, l.ManagedFields, "the API server begins to track only what is applied")
	})
	t.Run("that were applied stay", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, shared)
		c.apply(map[string]string{"team": "a", "tier": "1"})
		c.start("a")
		c.requireAudited("a", time.Time{}, "update 200", 3)
		c.apply(map[string]string{"team": "a"})
		c.requireAudited("a", time.Now(), "update 200", 2)
		assert.Equal(t, map[string]string{"team": "a"}, c.lease().Labels, "it is known who had set the other label")
	})
	t.Run("are tracked once somebody applies", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, shared)
		c.start("a")
		c.requireAudited("a", time.Time{}, "update 200", 2)
		c.apply(map[string]string{"team": "a", "tier": "1"})
		c.requireAudited("a", time.Now(), "update 200", 2)
		c.apply(map[string]string{"team": "a"})
		assert.Equal(t, map[string]string{"team": "a"}, c.lease().Labels)
		assert.Len(t, c.journal(), 1, "the leader goes on")
	})
}

// apply gives the Lease labels by server-side apply.
func (c *cluster) apply(labels map[string]string) {
	c.t.Helper()
	_, err := c.client().CoordinationV1().Leases(c.namespace).Apply(c.t.Context(),
		coordinationapply.Lease("l", c.namespace).WithLabels(labels),
		metav1.ApplyOptions{FieldManager: "gitops"})
	require.NoError(c.t, err)
}
