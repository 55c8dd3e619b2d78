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
	inWorld(t, func(t *testing.T, w *world) {
		w.former = true
		stop, _ := w.settledWith(60, w.config(), "a", "b")
		defer stop()
		w.shard("c")
		time.Sleep(30 * time.Second)
		w.requirePlaced(60, "a", "b", "c")
		moved := w.owners()["c"]
		assert.Equal(t, map[string]int{"drain": moved, "assign": moved}, w.patched())
	})
}

// The successor may change before an object is given away. It ends, or comes back in its next
// epoch, while the owners still have the objects. Then the drains name the new successor.
func TestWhoIsNextMayChangeBeforeAnObjectIsGivenAway(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world, c *testShard)
		shards []string
	}{
		"it has left":     {func(_ *world, c *testShard) { c.release() }, []string{"a", "b"}},
		"it is back":      {func(w *world, c *testShard) { c.release(); w.shard("c") }, []string{"a", "b", "c"}},
		"it has died":     {func(_ *world, c *testShard) { c.kill() }, []string{"a", "b"}},
		"another is next": {func(w *world, c *testShard) { w.shard("d"); c.release() }, []string{"a", "b", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				r := &referee{
					keys: w.keys, owners: map[types.UID]protocol.OwnerEpoch{}, past: map[types.UID]int64{},
					gone: map[types.UID]time.Time{},
				}
				w.server.Observe(r.see)
				stop, shards := w.settledWith(120, w.config(), "a", "b")
				defer stop()
				stubborn(true, shards...)
				c := w.shard("c")
				time.Sleep(10 * time.Second)
				require.Positive(t, w.owners()["-"])
				test.change(w, c)
				time.Sleep(time.Minute)
				w.patched()
				stubborn(false, shards...)
				time.Sleep(time.Minute)
				w.requirePlaced(120, test.shards...)
				assert.Empty(t, w.patched(), "the shards had been told before")
				assert.Empty(t, r.foul)
			})
		})
	}
}

// A successor may end at the moment at which it gets the objects. They are then assigned like those
// of any shard that has ended.
func TestObjectsAreGivenToAShardThatHasJustEnded(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		stop, _ := w.settledWith(120, w.config(), "a", "b")
		defer stop()
		w.connection.Inject(apisim.Faults{WatchLag: 5 * time.Second}) // the sharder hears of it late
		c := w.shard("c")
		time.Sleep(5*time.Second + 100*time.Millisecond)
		c.release()
		w.shard("c") // in its next epoch, so that the label says nothing
		time.Sleep(time.Minute)
		w.requirePlaced(120, "a", "b", "c")
	})
}

// The history names a former member until its epoch is over. Drains that name it as the successor
// may still be carried out. If the record of such an object were lost and the history did not name
// the shard, no sharder would ask it.
func TestTheHistoryNamesAFormerMemberUntilItIsOver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.config()
		c.ScanInterval = 20 * time.Second
		defer w.sharder(c)()
		w.shard("a")
		b := w.shard("b")
		time.Sleep(time.Minute)
		w.told()
		lease := func(patch string) {
			_, err := w.kube.CoordinationV1().Leases(testNamespace).Patch(t.Context(), "b", types.MergePatchType,
				[]byte(patch), metav1.PatchOptions{})
			require.NoError(t, err)
		}
		b.kill()
		// b is no member, and may be at work
		lease(`{"metadata":{"annotations":{"` + shardrecord.EpochAnnotation + `":"?"}}}`)
		time.Sleep(time.Minute)
		told := w.told()
		require.Contains(t, told, "settled [a]")
		assert.True(t, w.remembers("b"), "%v", told)
		lease(`{"metadata":{"annotations":{"` + shardrecord.EpochAnnotation + `":"1"}}}`)
		time.Sleep(2 * time.Minute) // the Lease is taken over
		assert.False(t, w.remembers("b"), "%v", w.told())
	})
}

// remembers reports whether the ring's history names a shard.
func (w *world) remembers(shard string) bool { return w.storedHistory().Names(shard) }

func (w *world) storedHistory() protocol.History {
	m, err := w.kube.CoreV1().ConfigMaps(testNamespace).Get(w.t.Context(), HistoryName(testRing), metav1.GetOptions{})
	require.NoError(w.t, err)
	h, err := protocol.ParseHistory(m.Data[historyKey])
	require.NoError(w.t, err)
	return h
}
