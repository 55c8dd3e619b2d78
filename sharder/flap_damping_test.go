package sharder

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// flapsAllowed is how often a shard may come and go without a delay.
const flapsAllowed = 3

// flap has a shard come and go until it is kept out for a while. It is there at the end.
func (w *world) flap(s *testShard, name string) *testShard {
	for range flapsAllowed + 1 {
		s.release()
		time.Sleep(2 * time.Second)
		s = w.shard(name)
		time.Sleep(2 * time.Second)
	}
	return s
}

// The only shard that is there gets the objects, however often it has come and gone. It stays when
// another joins.
func TestTheOnlyShardIsNotKeptOut(t *testing.T) {
	for name, drained := range map[string]bool{"": false, "drained": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				stop, shards := w.settledWith(20, w.config(), "a")
				defer stop()
				w.drain("a", drained)
				w.flap(shards[0], "a")
				w.requirePlaced(20, "a")
				w.drain("a", false)
				w.shard("b")
				time.Sleep(2 * time.Second)
				w.requirePlaced(20, "a", "b")
				assert.NotContains(t, w.told(), "members [b]")
			})
		})
	}
}

// A shard that comes and goes is kept out while there is another one. When that has left, all that
// are kept out get objects, except those that are to be drained.
func TestShardsThatAreKeptOutGetObjectsWhenThereIsNoOther(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(40, w.config(), "a", "b", "c", "d")
		defer stop()
		w.drain("d", true)
		for range flapsAllowed + 3 {
			for _, s := range shards[1:] {
				s.release()
			}
			time.Sleep(2 * time.Second)
			for i, name := range []string{"b", "c", "d"} {
				shards[i+1] = w.shard(name)
			}
			time.Sleep(2 * time.Second)
		}
		w.requirePlaced(40, "a")
		w.told()
		shards[0].release()
		time.Sleep(2 * time.Second)
		w.requirePlaced(40, "b", "c")
		time.Sleep(10 * time.Minute)
		w.requirePlaced(40, "b", "c")
		members := slices.DeleteFunc(w.told(), func(s string) bool { return !strings.HasPrefix(s, "members ") })
		assert.Equal(t, []string{"members [b c]"}, members, "they are let in once")
	})
}
