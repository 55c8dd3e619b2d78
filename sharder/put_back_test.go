package sharder

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
)

// webhook puts back what patches set in the metadata of one object: they succeed, and change nothing.
type webhook struct {
	name           atomic.Pointer[string] // of the object
	patches, lists atomic.Int64           // of that object; of all objects
}

func (h *webhook) wrap(next http.RoundTripper) http.RoundTripper {
	return ringtest.RoundTripper(func(q *http.Request) (*http.Response, error) {
		if q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/configmaps") && !q.URL.Query().Has("watch") {
			h.lists.Add(1)
		}
		name := h.name.Load()
		if name != nil && q.Method == http.MethodPatch && strings.HasSuffix(q.URL.Path, "/"+*name) {
			h.patches.Add(1)
			q = q.Clone(q.Context())
			q.Body, q.ContentLength = io.NopCloser(bytes.NewReader([]byte("{}"))), 2
		}
		return next.RoundTrip(q)
	})
}

// sharderBehind runs a sharder whose patches a webhook sees.
func (k *cluster) sharderBehind(h *webhook, c Config) (stop func()) {
	kube, meta := k.clients(k.server.Client("sharder"), h.wrap)
	s, err := New(kube, meta, ringtest.TestMapper(), c)
	require.NoError(k.t, err)
	return k.begin(func(ctx context.Context) { assert.NoError(k.t, s.Run(ctx)) })
}

// A new object whose labels are put back has no owner. That is said, and tried again rarely.
func TestAnObjectThatIsPutBackHasNoOwner(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		k.shard("a")
		k.shard("b")
		time.Sleep(time.Second)
		h, c := &webhook{}, k.config()
		core, logs := observer.New(zap.WarnLevel)
		c.Logger = zap.New(core)
		var unowned atomic.Int64
		c.Hooks.OnUnowned = func(Unowned) { unowned.Add(1) }
		defer k.sharderBehind(h, c)()
		k.create(50, "o")
		time.Sleep(5 * time.Minute)
		name := "p-000"
		h.name.Store(&name)
		h.lists.Store(0)
		k.create(1, "p")
		time.Sleep(time.Hour)
		assert.EqualValues(t, 1, unowned.Load())
		assert.InDelta(t, 120, h.patches.Load(), 30, "one each half minute")
		assert.Less(t, h.lists.Load(), int64(40), "not for each try")
		assert.Positive(t, logs.FilterMessageSnippet("object update failed").Len())
		h.name.Store(nil)
		time.Sleep(time.Minute)
		k.requirePlaced(51, "a", "b")
	})
}

// An object that is to move, and stays, costs little.
func TestADrainThatIsPutBackCostsLittle(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		k.shard("a")
		b := k.shard("b")
		time.Sleep(time.Second)
		h := &webhook{}
		defer k.sharderBehind(h, k.config())()
		k.create(50, "o")
		time.Sleep(time.Minute)
		var name string // of an object that is b's when b is there
		for _, o := range k.objects() {
			if k.keys.ShardOf(&o) == "b" {
				name = o.Name
			}
		}
		b.release()
		time.Sleep(5 * time.Minute)
		h.name.Store(&name)
		h.lists.Store(0)
		k.shard("b")
		time.Sleep(10 * time.Minute)
		assert.Less(t, h.patches.Load(), int64(50))
		assert.Less(t, h.lists.Load(), int64(40), "not for each try")
		h.name.Store(nil)
		time.Sleep(time.Minute)
		k.requirePlaced(50, "a", "b")
	})
}

// A root waits while one of its children keeps another label than was patched.
func TestAChildThatIsPutBackKeepsItsRootWaiting(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		a := k.shard("a")
		k.shard("b")
		time.Sleep(time.Second)
		h := &webhook{}
		defer k.sharderBehind(h, k.familyConfig())()
		k.create(20, "o")
		time.Sleep(time.Minute)
		k.bear(1, true)
		time.Sleep(10 * time.Minute)
		root := k.objectOf(k.rootsOf("a")[0])
		child := k.children()[root.UID][0]
		h.name.Store(&child.Name)
		a.release()
		time.Sleep(time.Hour)
		r, _ := k.keys.RecordOf(k.objectOf(root.Name))
		assert.NotEqual(t, "b", r.Shard)
		h.name.Store(nil)
		time.Sleep(time.Minute)
		r, _ = k.keys.RecordOf(k.objectOf(root.Name))
		assert.Equal(t, "b", r.Shard)
		child = k.children()[root.UID][0]
		assert.Equal(t, "b", k.keys.ShardOf(&child))
	})
}

// What a sharder has sent, and the API server has not stored, is no history: nothing is assigned under
// the membership that it should have had.
func TestAHistoryThatIsNotStoredAllowsNothing(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, _ := k.settledWith(40, k.config(), "a", "b")
		defer stop()
		time.Sleep(5 * time.Minute)
		var odd atomic.Int64
		k.connection.Inject(apisim.Faults{Odd: func(q *http.Request) *http.Response {
			if q.Method != http.MethodPut || !strings.HasSuffix(q.URL.Path, HistoryName(testRing)) || odd.Add(1) > 3 {
				return nil
			}
			return apisim.Oddities[5](q)
		}})
		k.shard("c")
		for k.owners()["c"] == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		assert.GreaterOrEqual(t, odd.Load(), int64(3))
		assert.True(t, k.remembers("c"))
	})
}
