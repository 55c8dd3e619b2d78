package fresh_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/fresh"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// stripped removes the version of an object.
func stripped(o any) (any, error) {
	o.(metav1.Object).SetResourceVersion("")
	return o, nil
}

// inTransformed runs f in a bubble with a cache whose informer has a transform.
func inTransformed(t *testing.T, transform cache.TransformFunc, relistAfter time.Duration, f func(s *standby)) {
	t.Helper()
	inStandby(t, func(s *standby) {
		r := fresh.NewRelister(fresh.Source(
			kubernetes.NewForConfigOrDie(s.connection.Config()).CoreV1().ConfigMaps("default")))
		s.cache.Source, s.cache.RelistAfter = r, relistAfter
		s.cache.Informer = cache.NewSharedIndexInformer(r, &corev1.ConfigMap{}, 0, cache.Indexers{})
		require.NoError(s.t, s.cache.Informer.SetTransform(transform))
		ctx, cancel := context.WithCancel(s.t.Context())
		defer synctest.Wait()
		defer cancel()
		go s.cache.Informer.RunWithContext(ctx)
		require.True(s.t, cache.WaitForCacheSync(ctx.Done(), s.cache.Informer.HasSynced))
		f(s)
	})
}

// A wait would take up to a minute, until a bookmark comes, and for ever without a watch cache.
func TestATransformThatRemovesVersionsIsAnError(t *testing.T) {
	for name, change := range map[string]func(s *standby){
		"before any change": func(*standby) {},
		"after a change":    (*standby).write,
	} {
		t.Run(name, func(t *testing.T) {
			inTransformed(t, stripped, 0, func(s *standby) {
				change(s)
				synctest.Wait()
				begin := time.Now()
				err := fresh.Wait(s.t.Context(), s.cache)
				assert.Less(t, time.Since(begin), time.Second)
				require.ErrorIs(t, err, fresh.ErrNotComparable)
				assert.ErrorContains(t, err,
					"configmaps: a transform must keep metadata.resourceVersion")
			})
		})
	}
}

func TestAnInformerWhoseTransformRemovesVersionsLists(t *testing.T) {
	inTransformed(t, stripped, 5*time.Second, func(s *standby) {
		s.write()
		synctest.Wait()
		assert.Less(t, s.requireFresh(), 5*time.Second)
	})
}

// An odd answer to a list of the informer leaves its store without a version, and is no transform.
func TestAListWithoutAVersionIsWaitedFor(t *testing.T) {
	inStandby(t, func(s *standby) {
		source := cache.ToListerWatcherWithContext(s.cache.Source)
		var even atomic.Bool
		s.cache.Informer = cache.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				if !even.Load() {
					return &corev1.ConfigMapList{}, nil
				}
				return source.ListWithContext(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				if !even.Load() {
					return nil, errUnreachable
				}
				return source.WatchWithContext(ctx, o)
			},
		}, &corev1.ConfigMap{}, 0, cache.Indexers{})
		ctx, cancel := context.WithCancel(s.t.Context())
		defer synctest.Wait()
		defer cancel()
		go s.cache.Informer.RunWithContext(ctx)
		require.True(s.t, cache.WaitForCacheSync(ctx.Done(), s.cache.Informer.HasSynced))
		time.AfterFunc(10*time.Second, func() { even.Store(true) })
		s.write()
		assert.GreaterOrEqual(t, s.requireFresh(), 10*time.Second)
	})
}

func TestWhatACacheNeeds(t *testing.T) {
	inStandby(t, func(s *standby) {
		err := fresh.Wait(s.t.Context(), fresh.Cache{Resource: s.cache.Resource, Source: s.cache.Source},
			fresh.Cache{Resource: s.cache.Resource, Informer: s.cache.Informer})
		assert.EqualError(t, err, "fresh: Cache.Informer of configmaps: must not be nil\n"+
			"fresh: Cache.Source of configmaps: must not be nil")
	})
}

func TestAStoppedInformerIsNotWaitedFor(t *testing.T) {
	const stopped = 1200 * time.Millisecond // client-go pauses for 0.8 s or more before it lists
	for name, c := range map[string]struct {
		relistAfter time.Duration
		faults      apisim.Faults
	}{
		"for its watch": {0, apisim.Faults{}},
		"for its list":  {time.Second, apisim.Faults{}},
		"for a floor":   {0, apisim.Faults{Refuse: apisim.Always}},
	} {
		t.Run(name, func(t *testing.T) {
			inStandby(t, func(s *standby) {
				r := fresh.NewRelister(s.cache.Source)
				s.cache.Source, s.cache.RelistAfter = r, c.relistAfter
				s.cache.Informer = cache.NewSharedIndexInformer(r, &corev1.ConfigMap{}, 0, cache.Indexers{})
				running, stop := context.WithCancel(s.t.Context())
				go s.cache.Informer.RunWithContext(running)
				require.True(t, cache.WaitForCacheSync(running.Done(), s.cache.Informer.HasSynced))
				s.connection.Inject(apisim.Faults{WatchLag: time.Hour})
				s.write()
				s.connection.Inject(c.faults)
				time.AfterFunc(stopped, stop)
				ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
				defer cancel()
				begin := time.Now()
				err := fresh.Wait(ctx, s.cache)
				require.ErrorContains(t, err, "the informer has been stopped, and shows no more changes: configmaps")
				assert.GreaterOrEqual(t, time.Since(begin), stopped)
				assert.LessOrEqual(t, time.Since(begin), 15*time.Second, "client-go repeats a list for 10 s")
			})
		})
	}
}

// Metadata watches of controller-runtime pass on the events of others.
func TestAWatchThatPassesOnEventsLeavesNoGoroutine(t *testing.T) {
	inStandby(t, func(s *standby) {
		source := cache.ToListerWatcherWithContext(
			cacheOf(kubernetes.NewForConfigOrDie(s.server.Client("faster").Config())).Source)
		s.cache.Source = &cache.ListWatch{
			ListWithContextFunc: source.ListWithContext,
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				w, err := source.WatchWithContext(ctx, o)
				if err != nil {
					return nil, err
				}
				for range 5 { // above the floor
					s.write()
				}
				return ahead{watch.Filter(w, func(e watch.Event) (watch.Event, bool) { return e, true })}, nil
			},
		}
		s.connection.Inject(apisim.Faults{WatchLag: 5 * time.Second})
		s.write()
		s.other()
		require.NoError(t, fresh.Wait(s.t.Context(), s.cache)) // a goroutine that stays is a deadlock of the bubble
	})
}

// ahead is a watch that has the next event ready when it is stopped.
type ahead struct{ watch.Interface }

func (w ahead) Stop() {
	synctest.Wait()
	w.Interface.Stop()
}
