package shard

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// warm is a replica whose informer lives as long as its process.
type warm struct {
	*replica
	cache *apisim.Client // of the informer
	lists atomic.Int64   // of everything, of all clients of the shard
}

// inWarm runs f with an informer that has synced before the lease is held for the first time.
func inWarm(t *testing.T, f func(w *warm)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster := newCluster(t)
		w := &warm{}
		cluster.sniff = func(r *http.Request) {
			if q := r.URL.Query(); r.Method == http.MethodGet && q.Get("limit") != "1" &&
				(q.Get("watch") == "" || q.Get("sendInitialEvents") != "") {
				w.lists.Add(1)
			}
		}
		w.replica = cluster.replica(Config{})
		w.cache = w.server.Client("a-cache")
		w.conn, w.cache = w.cache, w.conn
		w.informer = w.shard.NewInformer(listWatch(w.client()), &corev1.ConfigMap{}, 0, cache.Indexers{})
		w.conn, w.cache = w.cache, w.conn
		ctx, cancel := context.WithCancel(t.Context())
		defer w.running.Wait()
		defer cancel()
		w.running.Go(func() { w.informer.RunWithContext(ctx) })
		synctest.Wait()
		require.True(t, w.informer.HasSynced())
		f(w)
	})
}

// term runs f in a term of the lease.
func (w *warm) term(f func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	require.NoError(w.t, w.lease.Run(ctx, func(ctx context.Context) error {
		defer cancel()
		w.ctx = ctx
		f()
		return nil
	}))
}

// joined waits until the cache counts.
func (w *warm) joined() {
	w.t.Helper()
	begin := time.Now()
	w.informer.(*informer).await(w.ctx)
	require.NoError(w.t, w.ctx.Err())
	assert.Less(w.t, time.Since(begin), 3*time.Second)
}

// A cache that lives as long as the process is listed once. Work of each term is on what is stored.
func TestAWarmCacheIsListedOnce(t *testing.T) {
	inWarm(t, func(w *warm) {
		w.create("x")
		before := w.lists.Load()
		require.Positive(t, before)
		w.cache.Inject(apisim.Faults{Latency: 300 * time.Millisecond})
		for range 3 {
			w.term(func() {
				o := w.assign("x")
				assert.ErrorContains(t, w.do(o), "does not show yet what was stored when the term began")
				w.joined()
				assert.NoError(t, w.do(w.cached("x")))
			})
			assert.ErrorIs(t, w.do(w.cached("x")), ErrNotMine, "the lease is not held")
			time.Sleep(time.Minute)
		}
		assert.Equal(t, before, w.lists.Load())
	})
}

// Between two terms the object has been another shard's. Its cache does not show that yet.
func TestAWarmCacheThatIsBehindAllowsNoWork(t *testing.T) {
	inWarm(t, func(w *warm) {
		w.create("x")
		w.term(w.joined)
		w.cache.Inject(apisim.Faults{WatchLag: 30 * time.Second})
		w.term(func() {
			w.set("x", "a", false, w.owned(w.get("x"))) // the cache sees it in 30 s
			time.Sleep(time.Minute)
			old := w.cached("x")
			assert.NoError(t, w.do(old))
			w.set("x", "b", false, w.ownedBy("b", old))
			own := w.informer.(*informer)
			term := own.began()
			own.mu.Lock()
			own.term = nil // as before the term
			own.mu.Unlock()
			w.running.Go(func() { own.join(w.ctx, term) })
			time.Sleep(20 * time.Second)
			require.Equal(t, old.ResourceVersion, w.cached("x").ResourceVersion)
			assert.ErrorIs(t, w.do(old), ErrNotYet)
			time.Sleep(20 * time.Second)
			assert.Nil(t, w.cached("x"))
			assert.ErrorIs(t, w.do(old), ErrNotMine)
		})
	})
}

// What happens before the cache counts is dealt with when it does.
func TestAWarmCacheLetsGoOfWhatIsDrainedMeanwhile(t *testing.T) {
	inWarm(t, func(w *warm) {
		w.create("x")
		w.term(w.joined)
		w.cache.Inject(apisim.Faults{Latency: 300 * time.Millisecond})
		w.term(func() {
			w.assign("x")
			w.set("x", "a", true, nil)
			synctest.Wait()
			w.drainedStill("x")
			w.joined()
			synctest.Wait()
			w.acknowledged("x")
		})
	})
}

// An informer that has begun in a term goes on in the next one, and so does a controller.
func TestAControllerOfEachTermSharesOneCache(t *testing.T) {
	inWarm(t, func(w *warm) {
		w.create("x")
		before := w.lists.Load()
		for range 3 {
			var reconciled atomic.Int64
			w.term(func() {
				w.assign("x")
				ctx, stop := context.WithCancel(w.ctx)
				var running sync.WaitGroup
				running.Go(func() {
					assert.NoError(t, RunController(ctx, w.shard, w.informer, 2,
						func(context.Context, *corev1.ConfigMap) error {
							reconciled.Add(1)
							return nil
						}))
				})
				time.Sleep(4 * time.Second)
				assert.Positive(t, reconciled.Load())
				stop()
				running.Wait()
				reconciled.Store(0)
				w.set("x", "a", false, nil)
			})
			time.Sleep(time.Minute)
			assert.Zero(t, reconciled.Load())
		}
		assert.Equal(t, before, w.lists.Load())
	})
}

// A cache of children that is warm, and behind, holds work up in the next term, too.
func TestAWarmCacheOfChildrenCatchesUp(t *testing.T) {
	inFamily(t, func(t *testing.T, r *replica) {
		children := r.raise(20 * time.Second)
		root := r.create("x")
		r.bear(root, "p", "a")
		r.assign("x")
		own := children.(*informer)
		term := own.began()
		own.mu.Lock()
		own.term = nil // as before the term
		own.mu.Unlock()
		assert.ErrorContains(t, r.do(r.cached("x")), "a cache of pods, children of it, does not show yet")
		r.running.Go(func() { own.join(r.ctx, term) })
		time.Sleep(15 * time.Second)
		assert.ErrorIs(t, r.do(r.cached("x")), ErrNotYet)
		time.Sleep(10 * time.Second)
		assert.NoError(t, r.do(r.cached("x")))
		require.Len(t, children.GetStore().List(), 1)
	})
}

// A cache that cannot list does not count until it can.
func TestAWarmCacheThatCannotListWaits(t *testing.T) {
	inWarm(t, func(w *warm) {
		w.create("x")
		w.term(w.joined)
		w.cache.Inject(apisim.Faults{Refuse: apisim.Always})
		w.term(func() {
			o := w.assign("x")
			time.Sleep(time.Minute)
			assert.ErrorIs(t, w.do(o), ErrNotYet)
			w.cache.Inject(apisim.Faults{})
			time.Sleep(time.Minute)
			assert.NoError(t, w.do(w.cached("x")))
		})
	})
}

// The list that a warm cache catches up by gets no answer. Another one is sent.
func TestALostListKeepsNoTermFromWork(t *testing.T) {
	inWarm(t, func(w *warm) {
		w.create("x")
		w.term(w.joined)
		var lost atomic.Int32
		w.cache.Inject(apisim.Faults{LoseRequest: func(r *http.Request) bool {
			return r.URL.Query().Get("limit") == "1" && lost.Add(1) == 1
		}})
		w.term(func() {
			o := w.assign("x")
			time.Sleep(time.Minute)
			assert.NoError(t, w.do(o))
		})
	})
}

// The informer's watch brings nothing, or does not begin. Half a minute into the term, a list replaces it.
func TestAWarmCacheWhoseWatchHangsLists(t *testing.T) {
	for name, hung := range map[string]apisim.Faults{
		"open":            {Silent: true},
		"without a start": {LoseRequest: func(r *http.Request) bool { return r.URL.Query().Has("watch") }},
	} {
		t.Run(name, func(t *testing.T) {
			inWarm(t, func(w *warm) {
				w.create("x")
				w.create("y")
				w.term(w.joined)
				before := w.lists.Load()
				w.cache.Inject(hung)
				if !hung.Silent {
					w.server.Restart(0) // the informer has to ask once more
				}
				w.term(func() {
					o := w.assign("x")
					w.assign("y")
					w.set("y", "a", true, nil)
					time.Sleep(20 * time.Second)
					assert.ErrorIs(t, w.do(o), ErrNotYet)
					time.Sleep(20 * time.Second)
					if mine := w.cached("x"); assert.NotNil(t, mine) {
						assert.NoError(t, w.do(mine))
					}
					w.acknowledged("y")
				})
				assert.LessOrEqual(t, w.lists.Load(), before+2)
			})
		})
	}
}

// The list that replaces a watch gets no answer. Another one is sent.
func TestAListOfAnInformerThatIsLostIsSentAgain(t *testing.T) {
	inWarm(t, func(w *warm) {
		w.create("x")
		w.term(w.joined)
		var lost atomic.Int32
		w.cache.Inject(apisim.Faults{Silent: true, LoseRequest: func(r *http.Request) bool {
			q := r.URL.Query()
			return !q.Has("watch") && q.Get("limit") != "1" && lost.Add(1) == 1
		}})
		w.term(func() {
			w.assign("x")
			time.Sleep(3 * time.Minute)
			if mine := w.cached("x"); assert.NotNil(t, mine) {
				assert.NoError(t, w.do(mine))
			}
		})
		assert.Greater(t, lost.Load(), int32(1))
	})
}
