package shard

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestReconcileTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			o := w.create("x")
			w.create("y")
			w.set("x", "a", false, r.owned(o))
			ctx, cancel := context.WithCancel(r.ctx)
			informer := r.shard.NewInformer(listWatch(r.client()), &corev1.ConfigMap{}, 0, cache.Indexers{})
			seen := make(chan string, 100)
			failures := 2
			reconciling := make(chan error, 1)
			go func() {
				reconciling <- RunController(ctx, r.shard, informer, 1,
					func(_ context.Context, o *corev1.ConfigMap) error {
						seen <- o.Name
						o.Data = map[string]string{"a": "change of a copy"}
						if failures--; failures >= 0 {
							return errors.New("failure")
						}
						return nil
					})
			}()
			time.Sleep(time.Minute)
			assert.Len(t, seen, 3)
			for range 3 {
				assert.Equal(t, "x", <-seen)
			}
			item, _, _ := informer.GetStore().GetByKey("default/x")
			assert.Empty(t, item.(*corev1.ConfigMap).Data)

			end := r.work(r.cached("x")) // of another controller
			w.set("x", "a", true, nil)
			synctest.Wait()
			w.set("x", "a", false, nil) // there is no further event
			synctest.Wait()
			require.NoError(t, end())
			time.Sleep(time.Minute)
			assert.Equal(t, "x", <-seen)
			cancel()
			assert.NoError(t, <-reconciling)
			assert.Error(
				t, RunController(ctx, r.shard, informer, 0,
					func(context.Context, *corev1.ConfigMap) error { return nil }),
			)
		}))
	})
}

// Two controllers of one informer that begin together: one of them runs it, and both reconcile.
func TestControllersShareAnInformer(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			w := newCluster(t)
			assert.NoError(t, w.within(func(r *replica) {
				w.set("x", "a", false, r.owned(w.create("x")))
				ctx, cancel := context.WithCancel(r.ctx)
				informer := r.shard.NewInformer(listWatch(r.client()), &corev1.ConfigMap{}, 0, cache.Indexers{})
				var seen atomic.Int64
				see := func(context.Context, *corev1.ConfigMap) error {
					seen.Add(1)
					return nil
				}
				ended := make(chan error)
				for range 2 {
					go func() { ended <- RunController(ctx, r.shard, informer, 1, see) }()
				}
				time.Sleep(time.Minute)
				assert.EqualValues(t, 2, seen.Load())
				assert.Empty(t, ended)
				cancel()
				assert.NoError(t, <-ended)
				assert.NoError(t, <-ended)
			}))
		})
	}
}

// An informer that ran in an earlier term cannot run once more.
func TestAnInformerThatHasEndedIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			informer := r.shard.NewInformer(listWatch(r.client()), &corev1.ConfigMap{}, 0, cache.Indexers{})
			nothing := func(context.Context, *corev1.ConfigMap) error { return nil }
			ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
			defer cancel()
			assert.NoError(t, RunController(ctx, r.shard, informer, 1, nothing))
			assert.ErrorContains(t, RunController(r.ctx, r.shard, informer, 1, nothing), "an informer in each term")
			assert.NoError(t, RunController(ctx, r.shard, informer, 1, nothing), "its context has ended, too")
			informer.RunWithContext(r.ctx) // returns
		}))
	})
}

func TestReconcileWantsTheTypeOfItsInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			o := w.create("x")
			w.set("x", "a", false, r.owned(o))
			ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
			defer cancel()
			informer := r.shard.NewInformer(listWatch(r.client()), &corev1.ConfigMap{}, 0, cache.Indexers{})
			assert.NoError(t, RunController(ctx, r.shard, informer, 1,
				func(context.Context, *metav1.PartialObjectMetadata) error {
					assert.Fail(t, "called")
					return nil
				}))
		}))
	})
}
