package sharder

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/membership"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// weigh gives a shard another weight, or with an empty one its own.
func (k *cluster) weigh(shard, weight string) {
	k.t.Helper()
	value := "null"
	if weight != "" {
		value = strconv.Quote(weight)
	}
	_, err := k.kube.CoordinationV1().Leases(testNamespace).Patch(k.t.Context(), shard, types.MergePatchType,
		[]byte(`{"metadata": {"annotations": {"`+shardlease.WeightAnnotation+`": `+value+`}}}`), metav1.PatchOptions{})
	require.NoError(k.t, err)
}

// A shard gets objects by its weight. A change moves only what goes to the shard, or comes from it.
func TestSharesFollowWeights(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, _ := k.settledWith(1000, k.config(), "a", "b", "c")
		defer stop()
		even := k.owners()
		for weight, share := range map[string]float64{"300": 0.6, "20": 0.09, "5": 0.024} {
			k.weigh("c", weight)
			time.Sleep(time.Minute)
			shifted := k.owners()
			assert.InDelta(t, share, float64(shifted["c"])/1000, 0.05, "%v", shifted)
			if shifted["c"] > even["c"] {
				assert.LessOrEqual(t, shifted["a"], even["a"])
				assert.LessOrEqual(t, shifted["b"], even["b"])
			} else {
				assert.GreaterOrEqual(t, shifted["a"], even["a"])
				assert.GreaterOrEqual(t, shifted["b"], even["b"])
			}
			k.patched()
			k.weigh("c", "")
			time.Sleep(time.Minute)
			assert.Equal(t, even, k.owners())
			moved := max(shifted["c"]-even["c"], even["c"]-shifted["c"])
			assert.Equal(t, map[string]int{"drain": moved}, k.patched(), "each object moves once")
		}
	})
}

// A canary spoils what it touches. It touches only its share, and is taken back within seconds, however many objects
// there are.
func TestACanaryTouchesOnlyItsShare(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, _ := k.settledWith(1000, k.config(), "a", "b", "c")
		defer stop()
		k.weight = new(5)
		touched := map[string]bool{}
		follow := func(atMost time.Duration) {
			for end := time.Now().Add(atMost); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
				for _, o := range k.objects() {
					if k.keys.ShardOf(&o) == "canary" {
						touched[o.Name] = true
					}
				}
			}
		}
		k.shard("canary")
		follow(10 * time.Second)
		has := k.owners()["canary"]
		k.weigh("canary", "0")
		follow(2 * time.Second)
		assert.Zero(t, k.owners()["canary"])
		assert.Len(t, touched, has, "no more than it had in the end")
	})
}

// A weight that is none is ignored, and said to be.
func TestAnInvalidWeightIsIgnored(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		core, logs := observer.New(zap.WarnLevel)
		c := k.config()
		c.Logger = zap.New(core)
		stop, _ := k.settledWith(30, c, "a", "b")
		defer stop()
		before := k.owners()
		k.weigh("b", "1.5")
		time.Sleep(10 * time.Minute)
		assert.Equal(t, before, k.owners())
		warned := logs.FilterMessage("weights on Leases are ignored, shards keep their own").All()
		require.Len(t, warned, 1)
		assert.Contains(t, warned[0].ContextMap()["error"], `must be a whole number from 0 to 1000 (got "1.5")`)
	})
}

// diverted returns what is stored of it: hashes of keys by shard.
func (k *cluster) diverted() map[string][]string {
	_, diverted := k.stored()
	return diverted
}

// stored returns what is stored at one time.
func (k *cluster) stored() (h protocol.History, diverted map[string][]string) {
	m, err := k.kube.CoreV1().ConfigMaps(testNamespace).Get(k.t.Context(), membership.HistoryName(testRing),
		metav1.GetOptions{})
	require.NoError(k.t, err)
	if value := m.Data["diverted"]; value != "" {
		require.NoError(k.t, json.Unmarshal([]byte(value), &diverted))
	}
	h, err = protocol.ParseHistory(m.Data[historyKey])
	require.NoError(k.t, err)
	return h, diverted
}

// With Balance, no shard is idle, however few objects there are. Another sharder changes nothing. When a shard joins
// or leaves, all have their share again.
func TestFewObjectsAreBalanced(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.Balance = 1.25
		first := k.shard("a")
		for _, name := range []string{"b", "c", "d", "e"} {
			k.shard(name)
		}
		time.Sleep(time.Second)
		stop := k.sharder(c)
		time.Sleep(time.Second)
		k.create(10, "one-by-one")
		time.Sleep(time.Minute) // no scan is needed
		want := map[string]int{"a": 2, "b": 2, "c": 2, "d": 2, "e": 2}
		require.Equal(t, want, k.owners())
		k.patched()
		assert.NotEmpty(t, k.diverted())

		stop()
		stop = k.sharder(c)
		time.Sleep(10 * time.Minute)
		assert.Equal(t, want, k.owners())
		assert.Empty(t, k.patched(), "the next sharder knows what was diverted")

		first.release()
		time.Sleep(10 * time.Second)
		owners := k.owners()
		assert.Equal(t, 3, slices.Max(slices.Collect(maps.Values(owners))), "%v", owners)
		assert.Equal(t, 2, slices.Min(slices.Collect(maps.Values(owners))), "%v", owners)
		k.shard("f")
		time.Sleep(10 * time.Second)
		delete(want, "a")
		want["f"] = 2
		assert.Equal(t, want, k.owners())
		stop()

		c.Balance = 0
		stop = k.sharder(c)
		defer stop()
		time.Sleep(10 * time.Minute)
		assert.Empty(t, k.diverted(), "the ring alone decides")
	})
}

// createFor creates n objects that all belong to one of the shards a and b. Keys have the UIDs, so it deletes others.
func (k *cluster) createFor(shard string, n int) {
	r, err := RingOf(map[string]int{"a": 100, "b": 100})
	require.NoError(k.t, err)
	all := k.kube.CoreV1().ConfigMaps("default")
	for i := 0; n > 0; i++ {
		m, err := all.Create(k.t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("object-%d", i)},
		}, metav1.CreateOptions{})
		require.NoError(k.t, err)
		if owner, _ := r.OwnerBytes(api.ObjectKey(nil, schema.GroupKind{Kind: "ConfigMap"}, m)); owner == shard {
			n--
			continue
		}
		require.NoError(k.t, all.Delete(k.t.Context(), m.Name, metav1.DeleteOptions{}))
	}
}

// Before an object is assigned to a shard that its key is diverted to, the history says so.
func TestTheHistorySaysWhereKeysAreDiverted(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.Balance = 1
		k.shard("a")
		k.shard("b")
		time.Sleep(time.Second)
		patch := c.Hooks.OnPatch
		c.Hooks.OnPatch = func(p Patch) {
			patch(p)
			h, diverted := k.stored()
			known := map[string]bool{}
			for key := range h.Displaced {
				known[strings.TrimPrefix(string(key), "key ")] = true
			}
			for _, hash := range slices.Concat(slices.Collect(maps.Values(diverted))...) {
				assert.Contains(t, known, fmt.Sprintf("%016s", hash))
			}
		}
		k.createFor("a", 40)
		defer k.sharder(c)()
		time.Sleep(time.Minute)
		assert.NotEmpty(t, k.diverted())
	})
}

// An object that is diverted and loses its record is taken from the shard that it is with, not assigned to another
// one beside it.
func TestADivertedObjectThatLosesItsRecordIsAskedFor(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.Balance = 1
		shards := []*testShard{k.shard("a"), k.shard("b")}
		k.createFor("a", 40)
		stop := k.sharder(c)
		defer stop()
		time.Sleep(10 * time.Minute)
		require.Equal(t, map[string]int{"a": 20, "b": 20}, k.owners())
		h, diverted := k.stored()
		require.NotEmpty(t, diverted)
		require.Len(t, h.Memberships, 1, "settled")
		require.NotEmpty(t, h.Displaced)
		k.patched()
		acks := shards[0].acks.Load() + shards[1].acks.Load()
		for _, o := range k.objects() {
			k.strips(&o)
		}
		time.Sleep(time.Minute)
		require.Equal(t, map[string]int{"a": 20, "b": 20}, k.owners())
		asked := int(shards[0].acks.Load() + shards[1].acks.Load() - acks)
		assert.Equal(t, len(slices.Concat(slices.Collect(maps.Values(diverted))...)), asked,
			"%v", k.patched())
	})
}
