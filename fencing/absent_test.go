package fencing_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// The page that a proxy answers with is not the word of the API server: no Node, Pod, Lease or
// record is gone because of it.
func TestPageOfAProxyMakesNothingGone(t *testing.T) {
	test := func(of string, page apisim.Oddity) func(*testing.T) {
		return func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				breaches := w.referee()
				var mu sync.Mutex
				random, pages := rand.New(rand.NewPCG(1, 2)), 0
				w.proxy = func(r *http.Request) *http.Response {
					if !strings.Contains(r.URL.Path, of) || r.URL.Query().Has("watch") {
						return nil
					}
					mu.Lock()
					defer mu.Unlock()
					if random.IntN(3) > 0 {
						return nil
					}
					pages++
					return page(r)
				}
				for _, pod := range []string{"db-0", "db-1", "db-2", "db-3"} {
					w.pod(pod, "n1")
				}
				a := w.start("a", nil)
				defer a.stop()
				wait(w.ctx, settled)
				w.lose("n1")
				w.ends("n1", v1alpha1.PhaseFinal)
				w.requireFencedOnce("n1")
				assert.Empty(t, breaches())
				assert.EqualValues(t, 1, w.fence("n1").Status.Incident)
				assert.NotZero(t, pages)
			})
		}
	}
	for i, of := range []string{"/nodes/n1", "/nodefences/", "/pods", "/leases/n1"} {
		if i%share == 0 {
			t.Run(strings.Trim(of, "/"), test(of, apisim.Oddities[0]))
			t.Run(strings.Trim(of, "/")+", which decodes", test(of, apisim.Oddities[5]))
		}
	}
}

// A controller that may not list what it has to watch says so at once. It would wait for ever, and
// no one would be fenced.
func TestControllerThatMayNotWatchDoesNotWaitInSilence(t *testing.T) {
	for _, of := range []string{"/nodefences", "/nodes", "/leases", "/configmaps"} {
		t.Run(of[1:], func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.proxy = func(r *http.Request) *http.Response {
					if strings.HasSuffix(r.URL.Path, of) {
						return status(http.StatusForbidden, "Forbidden", "not for you")
					}
					return nil
				}
				a := w.start("a", func(*fencing.Config) {})
				select {
				case err := <-a.result:
					require.ErrorContains(t, err, "not for you")
					assert.ErrorContains(t, err, "list")
				case <-time.After(time.Minute):
					require.Fail(t, "it waits")
				}
			})
		})
	}
}

// Nor does any other answer of a proxy prove or refuse anything, for minutes, at the start or later.
func TestProxyThatAnswersNonsense(t *testing.T) {
	for name, of := range map[string]func(*http.Request) bool{
		"reads":      func(r *http.Request) bool { return r.Method == http.MethodGet },
		"writes":     func(r *http.Request) bool { return r.Method != http.MethodGet },
		"everything": func(*http.Request) bool { return true },
	} {
		for i, odd := range apisim.Oddities {
			t.Run(fmt.Sprint(name, " ", i), func(t *testing.T) {
				inWorld(t, 3, func(w *world) {
					breaches := w.referee()
					w.pod("db-0", "n1")
					var talks atomic.Bool
					talks.Store(i > 1) // a 404 at the start says that a resource is not served
					w.proxy = func(r *http.Request) *http.Response {
						if !talks.Load() || !of(r) {
							return nil
						}
						return odd(r)
					}
					r := &told{}
					core, logs := observer.New(zap.WarnLevel)
					a := w.start("a", func(c *fencing.Config) { c.Events, c.Logger = r, zap.New(core) })
					defer a.stop()
					wait(w.ctx, 10*time.Minute)
					assert.LessOrEqual(t, logs.Len(), 8, "each watch says it once or twice: %v", logs.All())
					talks.Store(false)
					wait(w.ctx, settled)
					talks.Store(true)
					w.cutOff("n1", true)
					wait(w.ctx, 2*time.Minute)
					talks.Store(false)
					w.lose("n1")
					w.ends("n1", v1alpha1.PhaseFinal)
					w.requireFencedOnce("n1")
					assert.Zero(t, r.count("Warning MethodFailed"), r.counts)
					assert.Empty(t, breaches())
				})
			})
		}
	}
}
