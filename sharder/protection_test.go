package sharder

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
)

func TestEveryPatchOfASharderNamesTheObjectAndItsVersion(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(20, k.familyConfig(), "a", "b")
		var sent ringtest.Preconditions
		note := func(q *http.Request) bool {
			sent.Note(q)
			return false
		}
		k.astray.Store(&note)
		k.bear(1, false)
		k.shard("c")
		time.Sleep(time.Minute)
		k.edit("o-000", `{"metadata":{"labels":null,"annotations":null}}`)
		shards[0].release()
		time.Sleep(time.Minute)
		k.requirePlaced(20, "b", "c")
		sent.Require(t, 20)
		stop()
	})
}

// No shard gets an object before the history names the shard.
func TestTheHistoryIsStoredBeforeAnythingIsAssigned(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		var known protocol.History
		given, unknown := 0, []string(nil)
		k.server.Observe(func(c apisim.Change) {
			if c.After == nil || c.After.GetKind() != "ConfigMap" {
				return
			}
			if c.After.GetName() == HistoryName(testRing) {
				value, _, _ := unstructured.NestedString(c.After.Content(), "data", historyKey)
				h, err := protocol.ParseHistory(value)
				assert.NoError(t, err)
				known = h
				return
			}
			if r, ok := k.keys.RecordOf(c.After); ok && r.State == protocol.StateOwned {
				given++
				if !known.Names(r.Shard) {
					unknown = append(unknown, c.After.GetName()+" to "+r.Shard)
				}
			}
		})
		stop := k.sharder(k.config())
		defer stop()
		k.create(20, "o")
		k.shard("a")
		time.Sleep(10 * time.Second)
		k.shard("b")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Positive(t, given)
		assert.Empty(t, unknown, "given to shards that the history does not name")
	})
}

func TestALeaseStaysWhileTheHistoryNamesIt(t *testing.T) {
	for named, want := range map[bool]int{true: 0, false: 1} {
		inCluster(t, func(t *testing.T, k *cluster) {
			b := k.shard("b")
			time.Sleep(time.Second)
			b.release()
			e := k.session()
			collected := 0
			e.collector.OnCollected = func(string) { collected++ }
			e.collector.Named = func(string) bool { return named }
			_, err := e.planner.Shards.List(t.Context())
			require.NoError(t, err)
			time.Sleep(2 * e.objects.config.GCPeriod)
			_, err = e.planner.Shards.List(t.Context())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			e.collector.Run(ctx)
			assert.Equal(t, want, collected, "named: %t", named)
		})
	}
}

// A new sharder counts the drains that are already under way toward MaxDrains.
func TestANewSharderCountsTheDrainsThatAreUnderWay(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.MaxDrains = 3
		stop, shards := k.settledWith(60, c, "a", "b")
		stubborn(true, shards...)
		k.shard("c")
		time.Sleep(5 * time.Second)
		require.Equal(t, 3, k.draining())
		stop()
		most := 0
		var mu sync.Mutex
		drained := map[string]bool{}
		for _, o := range k.objects() {
			drained[o.Name] = k.keys.Draining(&o)
		}
		k.server.Observe(func(change apisim.Change) {
			mu.Lock()
			defer mu.Unlock()
			if change.After != nil && change.After.GetKind() == "ConfigMap" {
				drained[change.After.GetName()] = k.keys.Draining(change.After)
			}
			now := 0
			for _, d := range drained {
				if d {
					now++
				}
			}
			most = max(most, now)
		})
		slow := func(q *http.Request) bool { // the list of drained objects is the slowest
			if q.URL.Query().Get("labelSelector") == k.keys.Drain && q.URL.Query().Get("watch") == "" {
				time.Sleep(5 * time.Second)
			}
			return false
		}
		k.astray.Store(&slow)
		defer k.sharder(c)()
		time.Sleep(time.Minute)
		stubborn(false, shards...)
		time.Sleep(2 * time.Minute)
		k.requirePlaced(60, "a", "b", "c")
		mu.Lock()
		defer mu.Unlock()
		assert.LessOrEqual(t, most, 3)
	})
}
