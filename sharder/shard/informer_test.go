package shard

import (
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
			assert.Len(t, logs.FilterMessage("an object could not be handed over; trying again").All(), 2)
			r.conn.Inject(apisim.Faults{})
			time.Sleep(time.Minute)
			w.acknowledged("x")
			w.acknowledged("y")
		}))
	})
}
