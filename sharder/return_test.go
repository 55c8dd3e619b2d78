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
			inWorld(t, func(t *testing.T, w *world) {
				w.returnWithin = c.within
				stop, shards := w.settledWith(30, w.config(), names...)
				defer stop()
				before := w.owners()
				moved := 0
				for i, name := range names {
					shards[i].release()
					time.Sleep(c.after)
					if w.owners()[name] == 0 {
						moved++
					}
					w.shard(name)
					time.Sleep(time.Minute)
				}
				assert.Equal(t, before, w.owners(), "and the ring is what it was")
				if c.moved {
					assert.Equal(t, len(names), moved)
					assert.Positive(t, w.patched()["drain"], "taken from those who had them meanwhile")
				} else {
					assert.Zero(t, w.patched()["drain"])
					assert.Equal(t, 0, moved)
				}
			})
		})
	}
}

// TestNewObjectsOfAShardThatIsAwayWaitForIt creates objects while a shard is being replaced.
func TestNewObjectsOfAShardThatIsAwayWaitForIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.returnWithin = 30 * time.Second
		stop, shards := w.settledWith(30, w.config(), "a", "b")
		defer stop()
		shards[0].release()
		time.Sleep(10 * time.Second)
		w.create(30, "new")
		time.Sleep(10 * time.Second)
		others := w.owners()["b"]
		w.shard("a")
		time.Sleep(10 * time.Second)
		assert.Equal(t, others, w.owners()["b"], "each has its part already")
		w.requirePlaced(60, "a", "b")
		assert.Zero(t, w.patched()["drain"])
	})
}
