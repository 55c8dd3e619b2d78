package shardlease_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStoppedShardIsDeadBeforeItsLeaseHasExpired(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	shard := c.start("a", "-kernel-deadline")
	c.requireTerm(1)
	c.start("b")
	require.NoError(t, shard.Pause())
	exit, err := shard.Wait(t.Context())
	require.NoError(t, err)
	assert.Equal(t, syscall.SIGKILL, exit.Signal)
	next := c.requireTerm(2)
	assert.Equal(t, "b", next.process)
	assert.Less(t, exit.At.UnixNano(), next.first, "still there when its successor began")
	c.requireOneAtATime()
}
