package sharder

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A shard in whose process nothing works on objects gets none until something does.
func TestAnIdleShardGetsNoObjects(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, _ := k.settledWith(30, k.config(), "a")
		defer stop()
		_, begin := k.idleShard("b")
		time.Sleep(10 * time.Minute)
		k.requirePlaced(30, "a")
		assert.Empty(t, k.told())
		begin()
		time.Sleep(time.Second)
		k.requirePlaced(30, "a", "b")
	})
}

// The objects of a shard that restarts wait for it, but not for ever.
func TestTheObjectsOfARestartedShardWaitUntilItWorks(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		k.returnWithin = 10 * time.Second
		stop, shards := k.settledWith(30, k.config(), "a", "b")
		defer stop()
		before := k.owners()
		shards[1].release()
		b, begin := k.idleShard("b")
		time.Sleep(20 * time.Second)
		assert.Equal(t, before["a"], k.owners()["a"], "none has moved")
		begin()
		time.Sleep(time.Second)
		k.requirePlaced(30, "a", "b")
		assert.Equal(t, before, k.owners())

		b.release()
		k.idleShard("b")
		time.Sleep(time.Minute + 2*time.Second)
		k.requirePlaced(30, "a")
	})
}

// If all are idle, nothing is assigned: it would wait anyway.
func TestARingOfIdleShardsWaits(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop := k.sharder(k.config())
		defer stop()
		_, begin := k.idleShard("a")
		k.create(10, "o")
		time.Sleep(10 * time.Minute)
		assert.Empty(t, k.patched())
		begin()
		time.Sleep(time.Second)
		k.requirePlaced(10, "a")
	})
}
