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
func (k *cluster) flap(s *testShard, name string) *testShard {
	for range flapsAllowed + 1 {
		s.release()
		time.Sleep(2 * time.Second)
		s = k.shard(name)
		time.Sleep(2 * time.Second)
	}
	return s
}

// The only shard that is there gets the objects, however often it has come and gone. It stays when
// another joins.
func TestTheOnlyShardIsNotKeptOut(t *testing.T) {
	for name, weight := range map[string]string{"": "", "drained": "0"} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				stop, shards := k.settledWith(20, k.config(), "a")
				defer stop()
				k.weigh("a", weight)
				k.flap(shards[0], "a")
				k.requirePlaced(20, "a")
				k.weigh("a", "")
				k.shard("b")
				time.Sleep(2 * time.Second)
				k.requirePlaced(20, "a", "b")
				assert.NotContains(t, k.told(), "members [b]")
			})
		})
	}
}

// A shard that comes and goes is kept out while there is another one. When that has left, all that
// are kept out get objects, except those that are to be drained.
func TestShardsThatAreKeptOutGetObjectsWhenThereIsNoOther(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(40, k.config(), "a", "b", "c", "d")
		defer stop()
		k.weigh("d", "0")
		for range flapsAllowed + 3 {
			for _, s := range shards[1:] {
				s.release()
			}
			time.Sleep(2 * time.Second)
			for i, name := range []string{"b", "c", "d"} {
				shards[i+1] = k.shard(name)
			}
			time.Sleep(2 * time.Second)
		}
		k.requirePlaced(40, "a")
		k.told()
		shards[0].release()
		time.Sleep(2 * time.Second)
		k.requirePlaced(40, "b", "c")
		time.Sleep(10 * time.Minute)
		k.requirePlaced(40, "b", "c")
		members := slices.DeleteFunc(k.told(), func(s string) bool { return !strings.HasPrefix(s, "members ") })
		assert.Equal(t, []string{"members [b c]"}, members, "they are let in once")
	})
}
