package fresh_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/fresh"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// uncached is a process with a warm cache of Events, which the API server does not cache, and a leader
// that writes them.
type uncached struct {
	t          *testing.T
	server     *apisim.Server
	connection *apisim.Client // of the process
	cache      fresh.Cache
	leader     coreclient.EventInterface
	lists      listLog // of the cache's Source, since it has synced
}

func inUncached(t *testing.T, objects int, f func(u *uncached)) {
	t.Helper()
	inUncachedBy(t, objects, func(source cache.ListerWatcher) cache.ListerWatcher { return source }, f)
}

func inUncachedBy(
	t *testing.T, objects int, by func(cache.ListerWatcher) cache.ListerWatcher, f func(u *uncached),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		u := &uncached{
			t: t, server: server, connection: server.Client("standby"),
			leader: kubernetes.NewForConfigOrDie(server.Client("leader").Config()).CoreV1().Events("default"),
		}
		for i := range objects {
			u.create("e" + strconv.Itoa(i))
		}
		events := kubernetes.NewForConfigOrDie(u.connection.Config()).CoreV1().Events("default")
		source := by(u.lists.wrap(fresh.Source(events)))
		u.cache = fresh.Cache{
			Resource: corev1.Resource("events"), Source: source,
			Informer: cache.NewSharedIndexInformer(source, &corev1.Event{}, 0, cache.Indexers{}),
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go u.cache.Informer.RunWithContext(ctx)
		require.True(t, cache.WaitForCacheSync(ctx.Done(), u.cache.Informer.HasSynced))
		u.lists.take()
		f(u)
	})
}

// faster is a Source for Wait whose connection has no faults.
func (u *uncached) faster() *cache.ListWatch {
	return fresh.Source(kubernetes.NewForConfigOrDie(u.server.Client("faster").Config()).CoreV1().Events("default"))
}

func (u *uncached) create(name string) {
	u.t.Helper()
	_, err := u.leader.Create(u.t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	require.NoError(u.t, err)
}

func (u *uncached) update(name string) {
	u.t.Helper()
	event, err := u.leader.Get(u.t.Context(), name, metav1.GetOptions{})
	require.NoError(u.t, err)
	event.Count++
	_, err = u.leader.Update(u.t.Context(), event, metav1.UpdateOptions{})
	require.NoError(u.t, err)
}

func (u *uncached) delete(name string) {
	u.t.Helper()
	require.NoError(u.t, u.leader.Delete(u.t.Context(), name, metav1.DeleteOptions{}))
}

// other writes something that the cache does not show.
func (u *uncached) other() {
	u.t.Helper()
	(&standby{t: u.t, server: u.server}).other()
}

// stored is what the API server has, as versions by key.
func (u *uncached) stored() map[string]string {
	list, err := u.leader.List(u.t.Context(), metav1.ListOptions{})
	require.NoError(u.t, err)
	all := map[string]string{}
	for _, e := range list.Items {
		all["default/"+e.Name] = e.ResourceVersion
	}
	return all
}

func (u *uncached) shown() map[string]string {
	all := map[string]string{}
	for _, o := range u.cache.Informer.GetStore().List() {
		e := o.(*corev1.Event)
		all["default/"+e.Name] = e.ResourceVersion
	}
	return all
}

// requireFresh bounds the wait: a watch of 3 s finds no bookmark, and then a list is the proof.
func (u *uncached) requireFresh() (took time.Duration) {
	u.t.Helper()
	stored, begin := u.stored(), time.Now()
	ctx, cancel := context.WithTimeout(u.t.Context(), 5*time.Minute)
	defer cancel()
	require.NoError(u.t, fresh.Wait(ctx, u.cache))
	require.Equal(u.t, stored, u.shown())
	return time.Since(begin)
}

// No bookmark comes, and the version of etcd is ahead of that of a quiet resource for ever. A Relister
// knows that its informer does not list.
func TestAListIsTheProofWithoutAWatchCache(t *testing.T) {
	for _, objects := range []int{0, 1, 1001} {
		t.Run(strconv.Itoa(objects), func(t *testing.T) {
			inUncachedBy(t, objects, func(source cache.ListerWatcher) cache.ListerWatcher {
				return fresh.NewRelister(source)
			}, func(u *uncached) {
				u.other()
				assert.InDelta(t, 3*time.Second, u.requireFresh(), float64(10*time.Millisecond))
			})
			inUncached(t, objects, func(u *uncached) {
				u.other()
				assert.InDelta(t, 3*time.Second, u.requireFresh(), float64(10*time.Millisecond))
				lists := u.lists.take() // besides that of one object
				require.Len(t, lists, max(1, (objects+499)/500))
				for _, page := range lists {
					assert.Empty(t, page.ResourceVersion, "a consistent list")
					assert.EqualValues(t, 500, page.Limit)
				}
			})
		})
	}
}

func TestWithoutAWatchCacheEveryChangeIsWaitedFor(t *testing.T) {
	const lag = 10 * time.Second
	for name, change := range map[string]func(u *uncached){
		"created":           func(u *uncached) { u.create("new") },
		"updated":           func(u *uncached) { u.update("e0") },
		"deleted":           func(u *uncached) { u.delete("e0") },
		"deleted, the last": func(u *uncached) { u.delete("e0"); u.delete("e1") },
		"replaced":          func(u *uncached) { u.delete("e0"); u.create("e0") },
	} {
		t.Run(name, func(t *testing.T) {
			inUncached(t, 2, func(u *uncached) {
				u.connection.Inject(apisim.Faults{WatchLag: lag})
				u.cache.Source = u.faster() // the list is there before the informer shows it
				change(u)
				u.other()
				assert.NotEqual(t, u.stored(), u.shown(), "a term that does not wait begins stale")
				took := u.requireFresh()
				assert.GreaterOrEqual(t, took, lag)
				assert.LessOrEqual(t, took, lag+time.Second)
			})
		})
	}
}

// Others write all the time, faster than the cache follows, and delete what a list has shown.
func TestWithoutAWatchCacheTheWaitEndsWhileOthersWrite(t *testing.T) {
	inUncached(t, 2, func(u *uncached) {
		u.connection.Inject(apisim.Faults{WatchLag: 5 * time.Second})
		ctx, cancel := context.WithCancel(u.t.Context())
		var writing sync.WaitGroup
		defer writing.Wait()
		defer cancel()
		writing.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := "w" + strconv.Itoa(i)
				u.create(name)
				u.update("e0")
				time.Sleep(50 * time.Millisecond)
				u.delete(name)
			}
		})
		time.Sleep(10 * time.Second)
		before, err := u.leader.Get(u.t.Context(), "e0", metav1.GetOptions{})
		require.NoError(t, err)
		begin := time.Now()
		require.NoError(t, fresh.Wait(u.t.Context(), u.cache))
		assert.LessOrEqual(t, time.Since(begin), 6*time.Second)
		shown, _, _ := u.cache.Informer.GetStore().GetByKey("default/e0")
		assert.GreaterOrEqual(t, shown.(*corev1.Event).Count, before.Count)
	})
}

// Something between the process and the API server answers some of the requests.
func TestAnOddPageIsNoProof(t *testing.T) {
	for name, odd := range map[string]func(*corev1.EventList, metav1.ListOptions){
		"no version": func(l *corev1.EventList, o metav1.ListOptions) {
			if o.Limit != 1 && o.Continue == "" {
				*l = corev1.EventList{}
			}
		},
		"no version later": func(l *corev1.EventList, o metav1.ListOptions) {
			if o.Continue != "" {
				*l = corev1.EventList{}
			}
		},
		"another version later": func(l *corev1.EventList, o metav1.ListOptions) {
			if o.Continue != "" {
				*l = corev1.EventList{ListMeta: metav1.ListMeta{ResourceVersion: "999999"}}
			}
		},
		"an old list": func(l *corev1.EventList, o metav1.ListOptions) {
			if o.Limit != 1 {
				*l = corev1.EventList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inUncached(t, 500, func(u *uncached) {
				source, begin, answered := u.faster(), time.Now(), 0
				u.cache.Source = &cache.ListWatch{
					ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
						list, err := source.ListWithContext(ctx, o)
						if err == nil && time.Since(begin) < 20*time.Second {
							odd(list.(*corev1.EventList), o)
							answered++
						}
						return list, err
					},
					WatchFuncWithContext: source.WatchWithContext,
				}
				u.connection.Inject(apisim.Faults{WatchLag: 30 * time.Second})
				u.create("z") // alone on the second page
				u.other()
				assert.GreaterOrEqual(t, u.requireFresh(), 20*time.Second)
				assert.Greater(t, answered, 3, "other lists than that of one object")
			})
		})
	}
}

// A resource may have been quiet for so long that no watch can begin at the informer's version.
func TestAWatchThatIsTooOldIsNoProof(t *testing.T) {
	inUncached(t, 1, func(u *uncached) {
		u.other()
		u.server.Compact()
		assert.LessOrEqual(t, u.requireFresh(), 10*time.Millisecond)
	})
}

// Pages of one list may expire: the list begins again.
func TestAnExpiredPageBeginsTheListAgain(t *testing.T) {
	inUncached(t, 600, func(u *uncached) {
		u.other()
		source, failed := u.cache.Source, false
		u.cache.Source = &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				if o.Continue != "" && !failed {
					failed = true
					return nil, apierrors.NewResourceExpired("too old")
				}
				return cache.ToListerWatcherWithContext(source).ListWithContext(ctx, o)
			},
			WatchFuncWithContext: cache.ToListerWatcherWithContext(source).WatchWithContext,
		}
		u.requireFresh()
		assert.True(t, failed)
	})
}
