package shard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// request and result are those of controller-runtime, as far as they matter.
type (
	request struct{ cache.ObjectName }
	result  struct {
		Requeue      bool
		RequeueAfter time.Duration
	}
)

func TestGuardedReconcilersDoOnlyWhatIsTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			calls := 0
			var failure error
			get := func(_ context.Context, q request) (*corev1.ConfigMap, error) {
				if o := r.cached(q.Name); o != nil {
					return o, nil
				}
				return &corev1.ConfigMap{}, apierrors.NewNotFound(ringtest.ConfigMaps.GroupResource(), q.Name)
			}
			guarded := WrapReconciler(r.shard, get, func(context.Context, request) (result, error) {
				calls++
				return result{RequeueAfter: time.Hour}, failure
			})
			x := request{cache.ObjectName{Namespace: "default", Name: "x"}}

			got, err := guarded(r.ctx, x)
			assert.NoError(t, err)
			assert.Zero(t, got, "not there: deleted, or another shard's")

			w.create("x")
			r.assign("x")
			got, err = guarded(r.ctx, x)
			assert.NoError(t, err)
			assert.Equal(t, result{RequeueAfter: time.Hour}, got)
			for _, failure = range []error{errors.New("failure"), ErrNotYet, ErrNotMine} {
				got, err = guarded(r.ctx, x)
				assert.Equal(t, failure, err, "errors of the work are returned unchanged")
				assert.Equal(t, result{RequeueAfter: time.Hour}, got)
			}
			require.Equal(t, 4, calls)

			end := r.work(r.cached("x"))
			w.set("x", "a", true, nil)
			synctest.Wait()
			got, err = guarded(r.ctx, x)
			assert.NoError(t, err)
			assert.Equal(t, result{RequeueAfter: time.Second}, got)
			_, err = WrapReconciler(
				r.shard, get, func(context.Context, request) (struct{}, error) { return struct{}{}, nil },
			)(r.ctx, x)
			assert.ErrorIs(t, err, ErrNotYet, "nothing else tells the caller to try again")
			require.NoError(t, end())

			w.set(
				"x", "a", false,
				&protocol.Record{UID: w.get("x").UID, Shard: "a", LeaseUID: "l", Epoch: 1, State: protocol.StateOwned},
			)
			synctest.Wait()
			got, err = guarded(r.ctx, x)
			assert.NoError(t, err)
			assert.Zero(t, got)
			assert.Equal(t, 4, calls)

			broken := errors.New("broken")
			_, err = WrapReconciler(r.shard,
				func(context.Context, request) (*corev1.ConfigMap, error) { return nil, broken },
				func(context.Context, request) (result, error) { return result{}, nil })(r.ctx, x)
			assert.Equal(t, broken, err)
		}))
	})
}

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
