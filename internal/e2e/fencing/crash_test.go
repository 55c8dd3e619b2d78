package fencing_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
)

// life is everything that a fence does to the cluster, in its order.
func life(ctx context.Context, node *cluster.Node) error {
	if err := again(func() error { return node.MarkUnschedulable(ctx, proved) }); err != nil {
		return err
	}
	if err := again(func() error { _, err := node.Cordon(ctx, proved); return err }); err != nil {
		return err
	}
	if _, err := release(ctx, node, proved, cluster.Options{}, time.Minute); err != nil {
		return err
	}
	if err := node.Uncordon(ctx); err != nil {
		return err
	}
	return node.MarkSchedulable(ctx)
}

// writesOfALife is how many writes a life is with two pods: two for each pod, and two for each mark
// on the node.
const writesOfALife = 4 + 6

// crashed is a life that ended in the middle of a write, and was then lived once more by another
// process.
type crashed struct {
	*world
	name            string
	crash           *crash
	node            *corev1.Node
	elsewhere       *corev1.Pod
	dying, survivor *cluster.Node
	died, finished  error
}

var foreign = corev1.Taint{Key: "example.com/foreign", Value: "x", Effect: corev1.TaintEffectNoSchedule}

func newCrashed(t *testing.T, name string, crash *crash) *crashed {
	c := &crashed{world: newWorld(t), name: name, crash: crash}
	c.node = c.world.node(foreign)
	c.pod("one", c.node.Name)
	c.pod("two", c.node.Name)
	c.elsewhere = c.pod("elsewhere", c.world.node().Name)
	c.dying, c.survivor = c.fence(c.node, crash.roundTrip), c.fence(c.node)
	return c
}

// However a process ends, in the middle of whichever write, the next one finishes what it began,
// and nothing else.
func TestCrash(t *testing.T) {
	t.Parallel()
	whole := newCrashed(t, "not at all", &crash{after: writesOfALife})
	all := []*crashed{whole}
	for writes := range writesOfALife {
		all = append(all,
			newCrashed(t, fmt.Sprintf("before write %d", writes+1), &crash{after: writes}),
			newCrashed(t, fmt.Sprintf("after write %d, before its answer", writes+1),
				&crash{after: writes, lost: true}))
	}
	var living sync.WaitGroup
	for _, c := range all { // not as parallel tests: they mostly wait
		living.Go(func() {
			c.died = life(t.Context(), c.dying)
			c.finished = life(t.Context(), c.survivor)
		})
	}
	living.Wait()
	require.NoError(t, whole.died, "there are more writes than the crashes are tried for")
	require.Equal(t, writesOfALife, whole.crash.written, "there are fewer writes")
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			c.t = t
			if c != whole {
				require.ErrorIs(t, c.died, errCrashed)
			}
			require.NoError(t, c.finished)
			after := c.getNode(c.node.Name)
			assert.Contains(t, after.Spec.Taints, foreign)
			for _, taint := range after.Spec.Taints {
				assert.NotContains(t, []string{v1alpha1.TaintFenced, corev1.TaintNodeOutOfService}, taint.Key)
			}
			assert.False(t, after.Spec.Unschedulable)
			assert.NotContains(t, after.Annotations, cluster.AnnotationCordoned)
			assert.Nil(t, c.find("one"))
			assert.Nil(t, c.find("two"))
			c.requireUntouched(c.elsewhere)
		})
	}
}
