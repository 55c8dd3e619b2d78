package shard

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// restartServer has the informer list again, because the server has forgotten what it has seen.
func (r *replica) restartServer(cache *apisim.Client) {
	cache.Inject(apisim.Faults{Refuse: apisim.Always})
	r.server.Restart(0)
	r.create("new-" + time.Now().Format("15-04-05"))
	r.server.Compact()
	cache.Inject(apisim.Faults{})
}

func TestACacheWithoutATermListsLater(t *testing.T) {
	inWarm(t, func(w *warm) {
		w.create("x")
		w.term(w.joined)
		time.Sleep(time.Minute)
		before := w.lists.Load()
		w.restartServer(w.cache)
		time.Sleep(10 * time.Second)
		assert.Equal(t, before, w.lists.Load())
		time.Sleep(53 * time.Second)
		assert.Equal(t, before+1, w.lists.Load())
	})
}

func TestATermOfAShardEndsTheHold(t *testing.T) {
	inWarm(t, func(w *warm) {
		w.create("x")
		w.term(w.joined)
		time.Sleep(time.Minute)
		before := w.lists.Load()
		w.restartServer(w.cache)
		time.Sleep(5 * time.Second)
		require.Equal(t, before, w.lists.Load())
		w.term(func() {
			o := w.assign("x")
			w.joined()
			assert.Equal(t, before+1, w.lists.Load())
			assert.NoError(t, w.do(o))
			time.Sleep(time.Minute)
			w.restartServer(w.cache)
			time.Sleep(8 * time.Second) // client-go pauses
			assert.Equal(t, before+2, w.lists.Load(), "it is in the term")
		})
	})
}

// The first term waits for no cache that has begun in it. The cache is of the process.
func TestACacheOfTheFirstTermListsAtOnce(t *testing.T) {
	inFamily(t, func(t *testing.T, r *replica) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		proxy, informer := r.children()
		r.running.Go(func() { informer.RunWithContext(ctx) })
		root := r.create("x")
		r.assign("x")
		time.Sleep(time.Minute)
		r.bear(root, "p", "a")
		r.restartServer(proxy)
		time.Sleep(8 * time.Second) // client-go pauses
		r.bear(root, "q", "a")
		time.Sleep(time.Second)
		assert.Len(t, informer.GetStore().List(), 2)
	})
}
