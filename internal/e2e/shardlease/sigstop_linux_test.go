package shardlease_test

import (
	"context"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStoppedShardIsDeadBeforeItsLeaseHasExpired(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	shard := c.start("a", "-kernel-deadline")
	c.requireTerm(1)
	c.start("b", "-after", strconv.Itoa(shard.Pid())) // looks whether the shard is dead
	require.NoError(t, shard.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exit, err := shard.Wait(ctx)
	require.NoError(t, err)
	assert.Equal(t, syscall.SIGKILL, exit.Signal)
	assert.Equal(t, "b", c.requireTerm(2).process)
	c.requireOneAtATime()
}
