package sharder

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestAShardOfAStableNameKeepsItsObjects rolls a StatefulSet. Each shard releases its Lease and
// comes back under the same name.
func TestAShardOfAStableNameKeepsItsObjects(t *testing.T) {
	names := []string{"a", "b", "c"}
	for _, c := range []struct {
		name   string
		within time.Duration
		after  time.Duration
		moved  bool
	}{
		{"back in time", 30 * time.Second, 20 * time.Second, false},
		{"back too late", 30 * time.Second, 40 * time.Second, true},
		{"not expected", 0, 20 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				k.returnWithin = c.within
				stop, shards := k.settledWith(30, k.config(), names...)
				defer stop()
				before := k.owners()
				moved := 0
				for i, name := range names {
					shards[i].release()
					time.Sleep(c.after)
					if k.owners()[name] == 0 {
						moved++
					}
					k.shard(name)
					time.Sleep(time.Minute)
				}
				assert.Equal(t, before, k.owners(), "and the ring is what it was")
				if c.moved {
					assert.Equal(t, len(names), moved)
					assert.Positive(t, k.patched()["drain"], "taken from those who had them meanwhile")
				} else {
					assert.Zero(t, k.patched()["drain"])
					assert.Equal(t, 0, moved)
				}
			})
		})
	}
}

// TestNewObjectsOfAShardThatIsAwayWaitForIt creates objects while a shard is being replaced.
func TestNewObjectsOfAShardThatIsAwayWaitForIt(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		k.returnWithin = 30 * time.Second
		stop, shards := k.settledWith(30, k.config(), "a", "b")
		defer stop()
		shards[0].release()
		time.Sleep(10 * time.Second)
		k.create(30, "new")
		time.Sleep(10 * time.Second)
		others := k.owners()["b"]
		k.shard("a")
		time.Sleep(10 * time.Second)
		assert.Equal(t, others, k.owners()["b"], "each has its part already")
		k.requirePlaced(60, "a", "b")
		assert.Zero(t, k.patched()["drain"])
	})
}
