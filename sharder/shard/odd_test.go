package shard

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// A proxy answers with what decodes as an empty list. Work does not begin on a cache of that.
func TestAnAnswerThatIsNoListMakesNoCache(t *testing.T) {
	t.Run("the first", func(t *testing.T) {
		inFamily(t, func(t *testing.T, r *replica) {
			root := r.create("x")
			r.bear(root, "p", "a") // of an earlier process of this shard
			r.assign("x")
			proxy, informer := r.children()
			proxy.Inject(apisim.Faults{Odd: apisim.Oddities[5]})
			r.running.Go(func() { informer.RunWithContext(r.ctx) })
			for range 30 {
				time.Sleep(time.Second)
				assert.ErrorIs(t, r.do(r.cached("x")), ErrNotYet)
			}
			proxy.Inject(apisim.Faults{})
			time.Sleep(time.Minute)
			assert.Len(t, informer.GetStore().List(), 1)
			assert.NoError(t, r.do(r.cached("x")))
		})
	})
	t.Run("a later one", func(t *testing.T) {
		inFamily(t, func(t *testing.T, r *replica) {
			proxy, informer := r.children()
			r.running.Go(func() { informer.RunWithContext(r.ctx) })
			root := r.create("x")
			r.bear(root, "p", "a")
			r.assign("x")
			time.Sleep(time.Second)
			assert.NoError(t, r.do(r.cached("x")))
			proxy.Inject(apisim.Faults{Odd: apisim.Oddities[5]})
			r.create("y")
			r.server.Compact()
			r.server.Restart(0)
			for range 30 {
				time.Sleep(time.Second)
				assert.Len(t, informer.GetStore().List(), 1)
			}
		})
	})
}

// A webhook puts back what the shard acknowledges.
func TestAnAcknowledgementThatIsPutBackIsRetriedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		var patches atomic.Int64
		w.sniff = func(q *http.Request) {
			if q.Method == http.MethodPatch && strings.HasSuffix(q.URL.Path, "/x") {
				patches.Add(1)
				q.Body, q.ContentLength = io.NopCloser(bytes.NewReader([]byte("{}"))), 2
			}
		}
		assert.NoError(t, w.within(func(r *replica) {
			r.conn.Inject(apisim.Faults{Latency: 2500 * time.Microsecond})
			r.create("x")
			r.assign("x")
			r.set("x", "a", true, nil)
			time.Sleep(5 * time.Minute)
			assert.Less(t, patches.Load(), int64(30))
			assert.Greater(t, patches.Load(), int64(5))
		}))
	})
}
