package shard

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Requests that fail are said once for each object, however long they do, also after a conflict, which
// is not said.
func TestAnObjectThatCannotBeHandedOverIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		core, logs := observer.New(zap.WarnLevel)
		assert.NoError(t, w.replica(Config{Logger: zap.New(core)}).run(func(r *replica) {
			for _, name := range []string{"x", "y"} {
				w.create(name)
				r.assign(name)
			}
			conflict := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`
			var patches atomic.Int64
			r.conn.Inject(apisim.Faults{Odd: func(q *http.Request) *http.Response {
				switch {
				case q.Method != http.MethodPatch:
					return nil
				case patches.Add(1) > 2:
					return apisim.Oddities[3](q)
				}
				return &http.Response{
					StatusCode: http.StatusConflict, Request: q,
					Header: http.Header{"Content-Type": {"application/json"}},
					Body:   io.NopCloser(strings.NewReader(conflict)),
				}
			}})
			w.set("x", "a", true, nil)
			w.set("y", "a", true, nil)
			time.Sleep(10 * time.Minute)
			assert.Len(t, logs.FilterMessage("an object could not be handed over, retrying").All(), 2)
			r.conn.Inject(apisim.Faults{})
			time.Sleep(time.Minute)
			w.acknowledged("x")
			w.acknowledged("y")
		}))
	})
}

// Objects whose acknowledgements hang, as with a webhook that cannot be reached, delay others only by
// their first attempts. They are let go of when the webhook can be reached again.
func TestAcknowledgementsThatHangDoNotDelayOthers(t *testing.T) {
	const hanging, timeout = 100, 10 * time.Second
	for _, concurrency := range []int{0, 1} {
		t.Run(fmt.Sprint("concurrency ", concurrency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCluster(t)
				assert.NoError(t, w.replica(Config{Concurrency: concurrency}).run(func(r *replica) {
					r.conn.Inject(apisim.Faults{Odd: func(q *http.Request) *http.Response {
						if q.Method != http.MethodPatch || !strings.Contains(q.URL.Path, "/configmaps/bad-") ||
							!clock.Sleep(q.Context(), timeout-time.Millisecond) {
							return nil
						}
						return apisim.Oddities[3](q)
					}})
					for n := range hanging {
						o := w.create(fmt.Sprint("bad-", n))
						w.set(o.Name, "a", true, r.owned(o))
					}
					time.Sleep(hanging*timeout/time.Duration(cmp.Or(concurrency, 8)) + time.Minute)
					for n := range 10 {
						o := w.create(fmt.Sprint("good-", n))
						w.set(o.Name, "a", true, r.owned(o))
						time.Sleep(time.Second)
						w.acknowledged(o.Name)
					}
					w.drainedStill("bad-0")
					r.conn.Inject(apisim.Faults{})
					time.Sleep(time.Minute)
					for n := range hanging {
						w.acknowledged(fmt.Sprint("bad-", n))
					}
				}))
			})
		})
	}
}
