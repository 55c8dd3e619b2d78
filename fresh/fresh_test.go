package fresh_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/fresh"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// standby is a process with a warm cache of ConfigMaps, and a leader that writes them.
type standby struct {
	t          *testing.T
	server     *apisim.Server
	connection *apisim.Client // of the standby
	cache      fresh.Cache
	leader     coreclient.ConfigMapInterface
	written    atomic.Int64 // the last write that was acknowledged
}

// inStandby runs f in a bubble with a cache that has synced.
func inStandby(t *testing.T, f func(s *standby)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		s := &standby{
			t: t, server: server, connection: server.Client("standby"),
			leader: kubernetes.NewForConfigOrDie(server.Client("leader").Config()).CoreV1().ConfigMaps("default"),
		}
		_, err := s.leader.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
			metav1.CreateOptions{})
		require.NoError(t, err)
		s.cache = cacheOf(kubernetes.NewForConfigOrDie(s.connection.Config()))
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go s.cache.Informer.RunWithContext(ctx)
		require.True(t, cache.WaitForCacheSync(ctx.Done(), s.cache.Informer.HasSynced))
		f(s)
	})
}

func cacheOf(client kubernetes.Interface) fresh.Cache {
	source := cache.ToListWatcherWithWatchListSemantics(fresh.Source(client.CoreV1().ConfigMaps("default")), client)
	return fresh.Cache{
		Resource: corev1.Resource("configmaps"), Source: source,
		Informer: cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{}),
	}
}

// write is a write of the leader, which has been acknowledged.
func (s *standby) write() {
	s.t.Helper()
	n := s.written.Load() + 1
	_, err := s.leader.Patch(context.WithoutCancel(s.t.Context()), "c", types.MergePatchType,
		fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n), metav1.PatchOptions{})
	require.NoError(s.t, err)
	s.written.Store(n)
}

// shown is the write that the cache shows.
func (s *standby) shown() int64 {
	o, exists, err := s.cache.Informer.GetStore().GetByKey("default/c")
	require.NoError(s.t, err)
	require.True(s.t, exists)
	n, _ := strconv.ParseInt(o.(*corev1.ConfigMap).Data["n"], 10, 64)
	return n
}

func (s *standby) requireFresh() (took time.Duration) {
	s.t.Helper()
	begin := time.Now()
	require.NoError(s.t, fresh.Wait(s.t.Context(), s.cache))
	require.Equal(s.t, s.written.Load(), s.shown())
	return time.Since(begin)
}

// other writes something that the cache does not show: the version of etcd goes on.
func (s *standby) other() {
	s.t.Helper()
	_, err := kubernetes.NewForConfigOrDie(s.server.Client("other").Config()).CoreV1().Pods("default").
		Create(s.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}}, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

func TestWaitSeesThroughEveryLag(t *testing.T) {
	for lag := time.Duration(0); lag <= 10*time.Second; lag += 250 * time.Millisecond {
		inStandby(t, func(s *standby) {
			s.connection.Inject(apisim.Faults{WatchLag: lag})
			for range 5 {
				s.write()
			}
			s.other()
			if lag > 0 {
				assert.Less(t, s.shown(), s.written.Load(), "a term that does not wait begins stale")
			}
			// The bookmark of the second watch is late, too.
			assert.LessOrEqual(t, s.requireFresh(), lag+time.Second+10*time.Millisecond, "lag %v", lag)
		})
	}
}

// The second watch is faster than that of the informer.
func TestTheSecondWatchSaysHowFarTheInformerHasToCome(t *testing.T) {
	inStandby(t, func(s *standby) {
		s.cache.Source = cacheOf(kubernetes.NewForConfigOrDie(s.server.Client("faster").Config())).Source
		s.connection.Inject(apisim.Faults{WatchLag: 5 * time.Second})
		for range 3 {
			s.write()
		}
		s.other()
		assert.InDelta(s.t, 5*time.Second, s.requireFresh(), float64(10*time.Millisecond))
	})
}

// A list that any version will do for may come from a cache of the API server, which may be behind.
func TestTheFloorIsOfAConsistentList(t *testing.T) {
	inStandby(t, func(s *standby) {
		source := s.cache.Source
		var asked []metav1.ListOptions
		s.cache.Source = &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				asked = append(asked, o)
				return cache.ToListerWatcherWithContext(source).ListWithContext(ctx, o)
			},
			WatchFuncWithContext: cache.ToListerWatcherWithContext(source).WatchWithContext,
		}
		s.requireFresh()
		assert.Equal(s.t, []metav1.ListOptions{{Limit: 1}}, asked)
	})
}

// The version of etcd is far ahead of that of a quiet resource, whose next bookmark may come in a
// minute.
func TestWaitForAQuietResourceTakesASecond(t *testing.T) {
	inStandby(t, func(s *standby) {
		s.write()
		synctest.Wait()
		s.other()
		assert.InDelta(t, time.Second, s.requireFresh(), float64(10*time.Millisecond))
	})
}

func TestWaitForACacheThatHasJustBeenListedTakesNoTime(t *testing.T) {
	inStandby(t, func(s *standby) {
		assert.LessOrEqual(t, s.requireFresh(), 10*time.Millisecond)
	})
}

// A user writes all the time, faster than the cache follows.
func TestWaitEndsWhileOthersWrite(t *testing.T) {
	inStandby(t, func(s *standby) {
		s.connection.Inject(apisim.Faults{WatchLag: 2 * time.Second})
		ctx, cancel := context.WithCancel(s.t.Context())
		defer cancel()
		go func() {
			for tick := time.NewTicker(10 * time.Millisecond); ; {
				select {
				case <-tick.C:
					s.write()
				case <-ctx.Done():
					tick.Stop()
					return
				}
			}
		}()
		time.Sleep(5 * time.Second)
		before := s.written.Load()
		begin := time.Now()
		require.NoError(t, fresh.Wait(s.t.Context(), s.cache))
		assert.GreaterOrEqual(t, s.shown(), before)
		assert.LessOrEqual(t, time.Since(begin), 3*time.Second)
	})
}

// The informer's watch breaks, lists fail, and the history that it had seen is compacted.
func TestWaitGoesOnAfterFailures(t *testing.T) {
	inStandby(t, func(s *standby) {
		s.connection.Inject(apisim.Faults{Refuse: apisim.Always})
		s.server.Restart(0)
		s.write()
		s.server.Compact()
		s.other()
		time.AfterFunc(20*time.Second, func() { s.connection.Inject(apisim.Faults{}) })
		assert.Less(t, s.requireFresh(), time.Minute)
	})
}

// Something between the process and the API server answers in its place.
func TestOddAnswersAreNoProof(t *testing.T) {
	for i, odd := range apisim.Oddities {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			inStandby(t, func(s *standby) {
				s.connection.Inject(apisim.Faults{WatchLag: 5 * time.Second, Odd: odd})
				s.write()
				s.other()
				time.AfterFunc(20*time.Second, func() { s.connection.Inject(apisim.Faults{}) })
				s.requireFresh()
			})
		})
	}
}

func TestWaitNamesWhatIsBehind(t *testing.T) {
	inStandby(t, func(s *standby) {
		s.connection.Inject(apisim.Faults{WatchLag: time.Hour})
		s.write()
		errLate := fmt.Errorf("the term begins too late")
		ctx, cancel := context.WithTimeoutCause(s.t.Context(), 30*time.Second, errLate)
		defer cancel()
		err := fresh.Wait(ctx, s.cache)
		require.ErrorIs(t, err, errLate)
		at := s.cache.Informer.LastSyncResourceVersion()
		assert.ErrorContains(t, err, "the cache of configmaps is at version \""+at+"\", and has to reach \"")
	})
}

func TestWaitSaysWhyItHasNoList(t *testing.T) {
	inStandby(t, func(s *standby) {
		s.connection.Inject(apisim.Faults{Refuse: func(r *http.Request) bool {
			return !strings.Contains(r.URL.RawQuery, "watch=true")
		}})
		ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
		defer cancel()
		err := fresh.Wait(ctx, s.cache)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "list configmaps")
		assert.ErrorContains(t, err, "connection")
	})
}

// An API server that starts refuses everything for a moment, and roles may still be on their way.
func TestAListThatIsForbiddenForLongIsAnError(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("configmaps"), "", nil)
	for name, c := range map[string]struct {
		fail func(since time.Duration) error
		want time.Duration
		is   error
	}{
		"while the API server starts": {func(since time.Duration) error {
			if since < 14*time.Second {
				return forbidden
			}
			return nil
		}, 14 * time.Second, nil},
		"for good": {func(time.Duration) error { return forbidden }, 15 * time.Second, forbidden},
		"once more after another failure": {func(since time.Duration) error {
			switch {
			case since < 10*time.Second:
				return forbidden
			case since < 11*time.Second:
				return errUnreachable
			case since < 21*time.Second:
				return forbidden
			}
			return nil
		}, 21 * time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inStandby(t, func(s *standby) {
				source, begin := cache.ToListerWatcherWithContext(s.cache.Source), time.Now()
				s.cache.Source = &cache.ListWatch{
					ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
						if err := c.fail(time.Since(begin)); err != nil {
							return nil, err
						}
						return source.ListWithContext(ctx, o)
					},
					WatchFuncWithContext: source.WatchWithContext,
				}
				err := fresh.Wait(s.t.Context(), s.cache)
				assert.Equal(s.t, c.want, time.Since(begin))
				require.ErrorIs(s.t, err, c.is)
				if c.is != nil {
					assert.ErrorContains(s.t, err, "fresh: list configmaps: ")
				}
			})
		})
	}
}

var errUnreachable = errors.New("connection refused")

// An aggregated API server may have versions that are no numbers.
func TestVersionsThatCannotBeComparedAreAnError(t *testing.T) {
	inStandby(t, func(s *standby) {
		source := s.cache.Source
		s.cache.Source = &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				list, err := cache.ToListerWatcherWithContext(source).ListWithContext(ctx, o)
				if err == nil {
					list.(*corev1.ConfigMapList).ResourceVersion = "a7f"
				}
				return list, err
			},
			WatchFuncWithContext: cache.ToListerWatcherWithContext(source).WatchWithContext,
		}
		err := fresh.Wait(s.t.Context(), s.cache)
		require.ErrorIs(t, err, fresh.ErrNotComparable)
		assert.ErrorContains(t, err, "configmaps")
		assert.ErrorContains(t, err, "a7f")
	})
}

func TestAFakeClientsetHasNoVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}})
		c := cacheOf(client)
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		var running atomic.Bool
		time.AfterFunc(time.Second, func() {
			running.Store(true)
			c.Informer.RunWithContext(ctx)
		})
		require.NoError(t, fresh.Wait(ctx, c))
		assert.True(t, running.Load())
		assert.Len(t, c.Informer.GetStore().List(), 1)
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, fresh.Wait(ctx, c))
	})
}
