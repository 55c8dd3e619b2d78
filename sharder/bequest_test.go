package sharder

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// A shard of the previous version frees an object, and the sharder assigns it.
func TestAShardOfTheLastVersionLetsGoOfWhatItIsToGiveAway(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		k.former = true
		stop, _ := k.settledWith(60, k.config(), "a", "b")
		defer stop()
		k.shard("c")
		time.Sleep(30 * time.Second)
		k.requirePlaced(60, "a", "b", "c")
		moved := k.owners()["c"]
		assert.Equal(t, map[string]int{"drain": moved, "assign": moved}, k.patched())
	})
}

// The successor may change before an object is given away. It ends, or comes back in its next
// epoch, while the owners still have the objects. Then the drains name the new successor.
func TestWhoIsNextMayChangeBeforeAnObjectIsGivenAway(t *testing.T) {
	for name, test := range map[string]struct {
		change func(k *cluster, c *testShard)
		shards []string
	}{
		"it has left":     {func(_ *cluster, c *testShard) { c.release() }, []string{"a", "b"}},
		"it is back":      {func(k *cluster, c *testShard) { c.release(); k.shard("c") }, []string{"a", "b", "c"}},
		"it has died":     {func(_ *cluster, c *testShard) { c.kill() }, []string{"a", "b"}},
		"another is next": {func(k *cluster, c *testShard) { k.shard("d"); c.release() }, []string{"a", "b", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				r := &referee{
					keys: k.keys, owners: map[types.UID]protocol.OwnerEpoch{}, past: map[types.UID]int64{},
					gone: map[types.UID]time.Time{},
				}
				k.server.Observe(r.see)
				stop, shards := k.settledWith(120, k.config(), "a", "b")
				defer stop()
				stubborn(true, shards...)
				c := k.shard("c")
				time.Sleep(10 * time.Second)
				require.Positive(t, k.owners()["-"])
				test.change(k, c)
				time.Sleep(time.Minute)
				k.patched()
				stubborn(false, shards...)
				time.Sleep(time.Minute)
				k.requirePlaced(120, test.shards...)
				assert.Empty(t, k.patched(), "the shards had been told before")
				assert.Empty(t, r.foul)
			})
		})
	}
}

// A successor may end at the moment at which it gets the objects. They are then assigned like those
// of any shard that has ended.
func TestObjectsAreGivenToAShardThatHasJustEnded(t *testing.T) {
	inCluster(t, func(_ *testing.T, k *cluster) {
		stop, _ := k.settledWith(120, k.config(), "a", "b")
		defer stop()
		k.connection.Inject(apisim.Faults{WatchLag: 5 * time.Second}) // the sharder hears of it late
		c := k.shard("c")
		time.Sleep(5*time.Second + 100*time.Millisecond)
		c.release()
		k.shard("c") // in its next epoch, so that the label says nothing
		time.Sleep(time.Minute)
		k.requirePlaced(120, "a", "b", "c")
	})
}

// The history names a former member until its epoch is over. Drains that name it as the successor
// may still be carried out. If the record of such an object were lost and the history did not name
// the shard, no sharder would ask it.
func TestTheHistoryNamesAFormerMemberUntilItIsOver(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.ScanInterval = 20 * time.Second
		defer k.sharder(c)()
		k.shard("a")
		b := k.shard("b")
		time.Sleep(time.Minute)
		k.told()
		lease := func(patch string) {
			_, err := k.kube.CoordinationV1().Leases(testNamespace).Patch(t.Context(), "b", types.MergePatchType,
				[]byte(patch), metav1.PatchOptions{})
			require.NoError(t, err)
		}
		b.kill()
		// b is no member, and may be at work
		lease(`{"metadata":{"annotations":{"` + shardrecord.EpochAnnotation + `":"?"}}}`)
		time.Sleep(time.Minute)
		told := k.told()
		require.Contains(t, told, "settled [a]")
		assert.True(t, k.remembers("b"), "%v", told)
		lease(`{"metadata":{"annotations":{"` + shardrecord.EpochAnnotation + `":"1"}}}`)
		time.Sleep(2 * time.Minute) // the Lease is taken over
		assert.False(t, k.remembers("b"), "%v", k.told())
	})
}

// remembers reports whether the ring's history names a shard.
func (k *cluster) remembers(shard string) bool { return k.storedHistory().Names(shard) }

func (k *cluster) storedHistory() protocol.History {
	h, _ := k.stored()
	return h
}
