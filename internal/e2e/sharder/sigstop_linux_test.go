package sharder_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// TestStoppedShardWithAKernelDeadline proves that a shard that is stopped at work is dead before
// others begin. It cannot write later.
func TestStoppedShardWithAKernelDeadline(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		c.create(many)
		c.start("a", "-write")
		b := c.start("b", "-without-sharder", "-kernel-deadline", "-write", "-work=10ms", "-stubborn", "-pace=50ms")
		c.requireSettled("a", "b")
		all := c.list()
		c.requireWorkedOn(all, "a", "b")
		before := time.Now()
		require.NoError(t, b.Pause())
		exit := c.requireEnd(b)
		assert.Equal(t, syscall.SIGKILL, exit.Signal, "%s", exit)
		assert.ErrorIs(t, b.Resume(), os.ErrProcessDone)
		c.requireSettled("a")
		c.requireWorkedOn(all, "a")
		c.requireCosts(before, ownedBy(all, "b", "a", "b"), cost{sharder: 1})
		c.requireExclusion()
	})
}

// TestStoppedShardExitsWhenItWakes is about a shard without that deadline: what it was stopped at
// goes on for a moment when it is woken, but nothing else begins.
func TestStoppedShardExitsWhenItWakes(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		c.create(many)
		c.start("a")
		b := c.start("b", "-without-sharder", "-work=10ms", "-stubborn", "-pace=50ms")
		c.requireSettled("a", "b")
		all := c.list()
		c.requireWorkedOn(all, "a", "b")
		require.NoError(t, b.Pause())
		c.requireSettled("a")
		c.requireWorkedOn(all, "a")
		woken := time.Now()
		require.NoError(t, b.Resume())
		c.requireExit(b, shardlease.ExitCodeNotHeld)
		late := map[types.UID]int{}
		for _, p := range c.referee.pieces("b") {
			if p.begin.After(woken) {
				late[p.object]++
			}
		}
		for o, n := range late { // between the question whether the lease is held and the work
			assert.Equal(t, 1, n, "%s: work goes on", o)
		}
		t.Logf("%d pieces of work were stopped right before they began", len(late))
	})
}
