package sharder

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// An administrator has a shard drained: its objects go to the others, and new ones, too. It comes back
// when the administrator takes that back, and only then: renewals and a restart leave it as it is.
func TestADrainedShardLetsGo(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(30, k.config(), "a", "b", "c")
		defer stop()
		before := k.owners()
		k.weigh("b", "0")
		time.Sleep(time.Second)
		k.requirePlaced(30, "a", "c")
		assert.EqualValues(t, before["b"], shards[1].acks.Load(), "it has let go of each itself")
		k.create(30, "new")
		time.Sleep(10 * time.Minute)
		k.requirePlaced(60, "a", "c")
		shards[1].release()
		shards[1] = k.shard("b")
		time.Sleep(time.Minute)
		k.requirePlaced(60, "a", "c")
		k.weigh("b", "")
		time.Sleep(time.Second)
		k.requirePlaced(60, "a", "b", "c")
	})
}

// An object whose work does not end stays with its drained shard.
func TestADrainedShardFinishesItsWork(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(30, k.config(), "a", "b")
		defer stop()
		before := k.owners()["b"]
		shards[1].stubborn.Store(true)
		k.weigh("b", "0")
		time.Sleep(10 * time.Minute)
		assert.Equal(t, before, k.owners()["-"], "drained, and none has gone to a")
		shards[1].stubborn.Store(false)
		time.Sleep(10 * time.Second)
		k.requirePlaced(30, "a")
	})
}

// A drained shard dies: it is no reason to wait, and no reason to lose anything.
func TestADrainedShardDies(t *testing.T) {
	inCluster(t, func(_ *testing.T, k *cluster) {
		stop, shards := k.settledWith(30, k.config(), "a", "b")
		defer stop()
		shards[1].stubborn.Store(true)
		k.weigh("b", "0")
		time.Sleep(10 * time.Second)
		shards[1].kill()
		time.Sleep(31 * time.Second)
		k.requirePlaced(30, "a")
	})
}

// To drain all shards is to drain none: objects have to be somewhere. So it is if the last shard that
// is not drained dies.
func TestAllShardsCannotBeDrained(t *testing.T) {
	inCluster(t, func(_ *testing.T, k *cluster) {
		stop, shards := k.settledWith(30, k.config(), "a", "b", "c")
		defer stop()
		k.weigh("b", "0")
		k.weigh("c", "0")
		time.Sleep(10 * time.Second)
		k.requirePlaced(30, "a")
		shards[0].kill()
		time.Sleep(40 * time.Second)
		k.requirePlaced(30, "b", "c")
		k.create(30, "new")
		time.Sleep(10 * time.Second)
		k.requirePlaced(60, "b", "c")
		k.shard("d")
		time.Sleep(time.Minute)
		k.requirePlaced(60, "d")
	})
}
