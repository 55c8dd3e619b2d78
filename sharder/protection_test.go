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
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(20, w.familyConfig(), "a", "b")
		var sent ringtest.Preconditions
		note := func(q *http.Request) bool {
			sent.Note(q)
			return false
		}
		w.astray.Store(&note)
		w.bear(1, false)
		w.shard("c")
		time.Sleep(time.Minute)
		w.edit("o-000", `{"metadata":{"labels":null,"annotations":null}}`)
		shards[0].release()
		time.Sleep(time.Minute)
		w.requirePlaced(20, "b", "c")
		sent.Require(t, 20)
		stop()
	})
}

// No shard gets an object before the history names the shard.
func TestTheHistoryIsStoredBeforeAnythingIsAssigned(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var known protocol.History
		given, unknown := 0, []string(nil)
		w.server.Observe(func(c apisim.Change) {
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
			if r, ok := w.keys.RecordOf(c.After); ok && r.State == protocol.StateOwned {
				given++
				if !known.Names(r.Shard) {
					unknown = append(unknown, c.After.GetName()+" to "+r.Shard)
				}
			}
		})
		stop := w.sharder(w.config())
		defer stop()
		w.create(20, "o")
		w.shard("a")
		time.Sleep(10 * time.Second)
		w.shard("b")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Positive(t, given)
		assert.Empty(t, unknown, "given to shards that the history does not name")
	})
}

func TestALeaseStaysWhileTheHistoryNamesIt(t *testing.T) {
	for named, want := range map[bool]int{true: 0, false: 1} {
		inWorld(t, func(t *testing.T, w *world) {
			b := w.shard("b")
			time.Sleep(time.Second)
			b.release()
			e := w.session()
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
	inWorld(t, func(t *testing.T, w *world) {
		c := w.config()
		c.MaxDrains = 3
		stop, shards := w.settledWith(60, c, "a", "b")
		stubborn(true, shards...)
		w.shard("c")
		time.Sleep(5 * time.Second)
		require.Equal(t, 3, w.draining())
		stop()
		most := 0
		var mu sync.Mutex
		drained := map[string]bool{}
		for _, o := range w.objects() {
			drained[o.Name] = w.keys.Draining(&o)
		}
		w.server.Observe(func(change apisim.Change) {
			mu.Lock()
			defer mu.Unlock()
			if change.After != nil && change.After.GetKind() == "ConfigMap" {
				drained[change.After.GetName()] = w.keys.Draining(change.After)
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
			if q.URL.Query().Get("labelSelector") == w.keys.Drain && q.URL.Query().Get("watch") == "" {
				time.Sleep(5 * time.Second)
			}
			return false
		}
		w.astray.Store(&slow)
		defer w.sharder(c)()
		time.Sleep(time.Minute)
		stubborn(false, shards...)
		time.Sleep(2 * time.Minute)
		w.requirePlaced(60, "a", "b", "c")
		mu.Lock()
		defer mu.Unlock()
		assert.LessOrEqual(t, most, 3)
	})
}
