package shard

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
)

// selecting runs f in a shard of the ConfigMaps with the label wanted. Its cache shows all with the shard's
// label, or only those that are wanted too.
func (w *cluster) selecting(all bool, f func(r *replica)) error {
	wanted := ringtest.SelectorOf(w.t, "wanted")
	r := w.replica(Config{Resources: []api.Resource{{GVR: ringtest.ConfigMaps, Selector: wanted}}})
	return r.run(func(r *replica) {
		if !all {
			r.stop()
			client := r.client()
			r.informer = r.startWith(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					o.LabelSelector = r.shard.Selector(wanted).String()
					return client.CoreV1().ConfigMaps("").List(ctx, o)
				},
				WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
					o.LabelSelector = r.shard.Selector(wanted).String()
					return client.CoreV1().ConfigMaps("").Watch(ctx, o)
				},
			}, client))
		}
		f(r)
	})
}

// want sets or removes the label that the ring selects by.
func (w *cluster) want(name, value string) {
	w.t.Helper()
	_, err := w.admin.CoreV1().ConfigMaps("default").Patch(w.t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"wanted":`+value+`}}}`), metav1.PatchOptions{})
	require.NoError(w.t, err)
	synctest.Wait()
}

// stripped asserts that an object has nothing of the ring.
func (w *cluster) stripped(o *corev1.ConfigMap) {
	w.t.Helper()
	assert.False(w.t, w.keys.CarriesMarks(o), "%v", o.ObjectMeta)
}

// A shard lets go of what is no longer selected when no work on it is left.
func TestADeselectedObjectIsLetGoOfAfterTheWork(t *testing.T) {
	for name, all := range map[string]bool{"the cache shows it": true, "the cache does not show it": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCluster(t)
				assert.NoError(t, w.selecting(all, func(r *replica) {
					for _, name := range []string{"x", "kept", "deleted"} {
						w.create(name)
						w.want(name, `"yes"`)
						r.assign(name)
					}
					o := r.cached("x")
					require.NotNil(t, o)
					end := r.work(o)
					w.want("x", "null")
					time.Sleep(time.Second)
					assert.True(t, w.keys.CarriesMarks(w.get("x")), "there is work")
					require.NoError(t, end())
					time.Sleep(time.Second)
					w.stripped(w.get("x"))
					assert.Error(t, r.do(o))
					assert.NoError(t, r.do(r.cached("kept")))

					w.want("x", `"yes"`)
					assert.NoError(t, r.do(r.assign("x")), "it is back")
					require.NoError(t, w.admin.CoreV1().ConfigMaps("default").Delete(t.Context(), "deleted",
						metav1.DeleteOptions{}))
					time.Sleep(time.Minute)
					assert.Empty(t, r.remembered())
				}))
			})
		})
	}
}

// An object that is selected again before the work has ended stays.
func TestAnObjectThatIsSelectedAgainIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.selecting(true, func(r *replica) {
			w.create("x")
			w.want("x", `"yes"`)
			end := r.work(r.assign("x"))
			w.want("x", "null")
			assert.ErrorIs(t, r.do(r.cached("x")), ErrNotYet)
			w.want("x", `"again"`)
			assert.NoError(t, r.do(r.cached("x")))
			require.NoError(t, end())
			time.Sleep(time.Minute)
			assert.NoError(t, r.do(r.cached("x")))
			assert.Empty(t, r.hooks())
		}))
	})
}

// What a cache shows late is not believed.
func TestACacheThatLagsDeselectsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.selecting(true, func(r *replica) {
			r.stop()
			r.informer = r.lagging(10 * time.Second)
			w.create("x")
			w.want("x", `"yes"`)
			r.assign("x")
			time.Sleep(time.Minute)
			w.want("x", "null")
			time.Sleep(5 * time.Second)
			w.want("x", `"again"`)
			time.Sleep(time.Minute)
			assert.NoError(t, r.do(r.cached("x")))
			assert.Empty(t, r.hooks())
		}))
	})
}

// A transform that drops labels deselects nothing.
func TestATransformDeselectsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.selecting(true, func(r *replica) {
			w.create("x")
			w.want("x", `"yes"`)
			r.assign("x")
			informer := r.shard.NewInformer(listWatch(r.client()), &corev1.ConfigMap{}, 0, cache.Indexers{})
			require.NoError(t, informer.SetTransform(func(obj any) (any, error) {
				obj.(*corev1.ConfigMap).Labels = nil
				return obj, nil
			}))
			var reads atomic.Int32
			r.conn.Inject(apisim.Faults{Odd: func(q *http.Request) *http.Response {
				if q.URL.Query().Get("fieldSelector") != "" {
					reads.Add(1)
				}
				return nil
			}})
			r.stop()
			r.running.Go(func() { informer.RunWithContext(r.ctx) })
			time.Sleep(time.Minute)
			assert.Zero(t, reads.Load())
			r.informer = informer
			assert.NoError(t, r.do(r.cached("x")))
		}))
	})
}
