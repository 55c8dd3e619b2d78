package fresh_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/fresh"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/handover"
)

// backoff bounds the pause of client-go before the first list after a watch.
const backoff = 1700 * time.Millisecond

// quiet is as long as client-go remembers how often it had to pause, and shorter than any watch.
const quiet = 150 * time.Second

// restart has the server forget what these informers have seen, so that they have to list.
func (s *standby) restart(informers ...*asks) {
	for _, i := range informers {
		i.mu.Lock()
		i.forgotten = true
		i.mu.Unlock()
	}
	s.server.Restart(0)
}

// inTerm returns a context of a term, and ends the term.
func inTerm(t *testing.T) (ctx context.Context, end func()) {
	t.Helper()
	over := make(chan struct{})
	return handover.WithTerm(t.Context(), over), func() { close(over) }
}

// asks notes when an informer asks a source for everything. Lists of Wait have a limit.
type asks struct {
	cache.ListerWatcherWithContext
	refuse func(everything bool, o metav1.ListOptions) error // or nil

	mu        sync.Mutex
	slow      time.Duration // guarded by mu: how long a list of one object takes
	probed    chan struct{} // receives at each list of one object; nil: none
	forgotten bool          // guarded by mu: the next watch is of a version that the server does not know
	lists     []time.Time   // guarded by mu
}

func (a *asks) wrap(source cache.ListerWatcher) cache.ListerWatcher {
	a.ListerWatcherWithContext = cache.ToListerWatcherWithContext(source)
	return &cache.ListWatch{ListWithContextFunc: a.list, WatchFuncWithContext: a.watch}
}

func (a *asks) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if err := a.note(o.Limit == 0, o); err != nil {
		return nil, err
	}
	if o.Limit == 1 {
		a.mu.Lock()
		slow := a.slow
		a.mu.Unlock()
		select {
		case a.probed <- struct{}{}:
		default:
		}
		if !clock.Sleep(ctx, slow) {
			return nil, ctx.Err()
		}
	}
	return a.ListWithContext(ctx, o)
}

func (a *asks) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if err := a.note(o.SendInitialEvents != nil, o); err != nil {
		return nil, err
	}
	if o.SendInitialEvents == nil && a.forgets() {
		return nil, apierrors.NewResourceExpired("restarted")
	}
	return a.WatchWithContext(ctx, o)
}

func (a *asks) note(everything bool, o metav1.ListOptions) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if everything {
		a.lists = append(a.lists, time.Now())
	}
	if a.refuse != nil {
		return a.refuse(everything, o)
	}
	return nil
}

func (a *asks) forgets() (forgotten bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	forgotten, a.forgotten = a.forgotten, false
	return forgotten
}

// since returns when after a time the source was asked for everything.
func (a *asks) since(begin time.Time) (after []time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.lists {
		if !at.Before(begin) {
			after = append(after, at.Sub(begin))
		}
	}
	return after
}

func (a *asks) slowDown(slow time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.slow = slow
}

func (a *asks) refuseWith(refuse func(everything bool, o metav1.ListOptions) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuse = refuse
}

// add starts another informer of the same objects, which has synced, until ctx has ended.
func (s *standby) add(ctx context.Context) (fresh.Cache, *asks) {
	s.t.Helper()
	client, asked := kubernetes.NewForConfigOrDie(s.server.Client("another").Config()), &asks{}
	r := fresh.NewRelister(asked.wrap(fresh.Source(client.CoreV1().ConfigMaps("default"))))
	c := fresh.Cache{
		Resource: corev1.Resource("configmaps"), Source: r,
		Informer: cache.NewSharedIndexInformer(r, &corev1.ConfigMap{}, 0, cache.Indexers{}),
	}
	go c.Informer.RunWithContext(ctx)
	require.True(s.t, cache.WaitForCacheSync(ctx.Done(), c.Informer.HasSynced))
	time.Sleep(2 * time.Second) // to client-go, a watch that ends within a second has failed
	return c, asked
}

// Thirty standbys list one after the other, each within a minute.
func TestStandbysListLater(t *testing.T) {
	inStandby(t, func(s *standby) {
		ctx, cancel := context.WithCancel(s.t.Context())
		var all []*asks
		var caches []fresh.Cache
		for range 30 {
			c, asked := s.add(ctx)
			all, caches = append(all, asked), append(caches, c)
		}
		time.Sleep(quiet)
		s.restart(all...)
		s.write()
		begin := time.Now()
		time.Sleep(2 * time.Minute)
		var lists []time.Duration
		for i, asked := range all {
			once := asked.since(begin)
			require.Len(t, once, 1)
			lists = append(lists, once...)
			assert.Equal(t, version(s), caches[i].Informer.GetStore().LastStoreSyncResourceVersion())
		}
		slices.Sort(lists)
		assert.Greater(t, lists[0], 10*time.Second)
		assert.Less(t, lists[29], time.Minute+backoff)
		assert.Greater(t, lists[29]-lists[0], 25*time.Second)
		cancel()
	})
}

// version is that of the ConfigMap.
func version(s *standby) string {
	s.t.Helper()
	o, err := s.leader.Get(s.t.Context(), "c", metav1.GetOptions{})
	require.NoError(s.t, err)
	return o.ResourceVersion
}

func TestAProcessListsAtOnceWhenItStarts(t *testing.T) {
	inStandby(t, func(s *standby) {
		ctx, cancel := context.WithCancel(s.t.Context())
		defer cancel()
		begin := time.Now()
		_, asked := s.add(ctx)
		assert.Equal(t, []time.Duration{0}, asked.since(begin))
	})
}

// A process that starts while the server has just begun to fail tries like any informer.
func TestAFirstListThatFailsIsTriedAgainSoon(t *testing.T) {
	inRelister(t, nil, func(s *standby) {
		fails := 3
		client := kubernetes.NewForConfigOrDie(s.connection.Config())
		asked := &asks{refuse: func(bool, metav1.ListOptions) error {
			if fails--; fails >= 0 {
				return apierrors.NewInternalError(assert.AnError)
			}
			return nil
		}}
		r := fresh.NewRelister(asked.wrap(fresh.Source(client.CoreV1().ConfigMaps("default"))))
		informer := cache.NewSharedIndexInformer(r, &corev1.ConfigMap{}, 0, cache.Indexers{})
		ctx, cancel := context.WithCancel(s.t.Context())
		defer cancel()
		go informer.RunWithContext(ctx)
		begin := time.Now()
		require.True(t, cache.WaitForCacheSync(ctx.Done(), informer.HasSynced))
		assert.Less(t, time.Since(begin), 3*backoff)
	})
}

func TestACacheOfATermListsAtOnce(t *testing.T) {
	for name, wait := range map[string]func(context.Context, ...fresh.Cache) error{
		"Wait": fresh.Wait, "WaitLatest": fresh.WaitLatest,
		"a wait with a deadline": func(ctx context.Context, caches ...fresh.Cache) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return fresh.Wait(ctx, caches...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inStandby(t, func(s *standby) {
				running, cancel := context.WithCancel(s.t.Context())
				defer cancel()
				c, asked := s.add(running)
				ctx, end := inTerm(s.t)
				require.NoError(t, wait(ctx, c))
				for range 3 {
					time.Sleep(quiet)
					s.restart(asked)
					begin := time.Now()
					time.Sleep(65 * time.Second)
					lists := asked.since(begin)
					require.Len(t, lists, 1)
					assert.Less(t, lists[0], backoff)
				}
				end()
				time.Sleep(quiet)
				s.restart(asked)
				begin := time.Now()
				time.Sleep(2 * time.Minute)
				lists := asked.since(begin)
				require.Len(t, lists, 1)
				assert.Greater(t, lists[0], 10*time.Second, "it is on standby again")
			})
		})
	}
}

// The context of another elector does not show when its term is over.
func TestACacheThatAnotherElectorNeedsListsAtOnceForGood(t *testing.T) {
	inStandby(t, func(s *standby) {
		running, cancel := context.WithCancel(s.t.Context())
		defer cancel()
		c, asked := s.add(running)
		bounded, over := context.WithTimeout(s.t.Context(), time.Minute)
		require.NoError(t, fresh.Wait(bounded, c))
		over()
		time.Sleep(quiet)
		s.restart(asked)
		begin := time.Now()
		time.Sleep(2 * time.Minute)
		lists := asked.since(begin)
		require.Len(t, lists, 1)
		assert.Less(t, lists[0], backoff)
	})
}

// A leader needs one list after a restart: its Wait relies on that of the informer.
func TestALeaderListsOnceAfterARestart(t *testing.T) {
	lists := &listLog{}
	inRelister(t, lists.wrap, func(s *standby) {
		streamed := func() (n int) {
			for _, r := range s.server.Trace() {
				all := strings.Contains(r.Query, "sendInitialEvents=true")
				if r.Client == "standby" && r.Code == http.StatusOK && all {
					n++
				}
			}
			return n
		}
		before := streamed()
		time.Sleep(time.Minute)
		s.connection.Inject(apisim.Faults{Refuse: apisim.Always})
		s.server.Restart(0)
		s.write()
		s.server.Compact()
		lists.take()
		s.connection.Inject(apisim.Faults{WatchLag: 3 * time.Second}) // the list takes that long
		time.Sleep(5 * time.Second)
		ctx, end := inTerm(s.t)
		defer end()
		require.NoError(t, fresh.Wait(ctx, s.cache))
		assert.Equal(t, s.written.Load(), s.shown())
		assert.Empty(t, lists.take())
		assert.Equal(t, before+2, streamed(), "the standby has another cache")
	})
}

func TestATermThatBeginsMeanwhileListsAtOnce(t *testing.T) {
	inStandby(t, func(s *standby) {
		running, cancel := context.WithCancel(s.t.Context())
		defer cancel()
		c, asked := s.add(running)
		s.restart(asked)
		s.write()
		begin := time.Now()
		time.Sleep(5 * time.Second)
		ctx, end := inTerm(s.t)
		defer end()
		require.NoError(t, fresh.Wait(ctx, c))
		assert.Less(t, time.Since(begin), 5*time.Second+10*time.Millisecond)
		assert.Equal(t, version(s), c.Informer.GetStore().LastStoreSyncResourceVersion())
		time.Sleep(2 * time.Minute)
		assert.Len(t, asked.since(begin), 1)
	})
}

// A process that is stopped while its cache waits lists when it resumes, in a term or not.
func TestAProcessIsStoppedWhileItsListWaits(t *testing.T) {
	for _, leads := range []bool{false, true} {
		asked := &asks{}
		inRelister(t, asked.wrap, func(s *standby) {
			s.restart(asked)
			time.Sleep(5 * time.Second)
			s.connection.Pause()
			ctx, end := inTerm(s.t)
			defer end()
			var waiting sync.WaitGroup
			if leads {
				waiting.Go(func() {
					time.Sleep(time.Second)
					assert.NoError(t, fresh.Wait(ctx, s.cache))
					assert.Equal(t, s.written.Load(), s.shown())
				})
			}
			time.Sleep(time.Minute)
			s.write()
			time.Sleep(time.Minute)
			s.connection.Resume()
			waiting.Wait()
			if !leads { // while it was stopped, it had no prompt answer
				time.Sleep(time.Minute + time.Second)
			}
			assert.Equal(t, s.written.Load(), s.shown())
		})
	}
}

func TestAnInformerEndsWhileItsListWaits(t *testing.T) {
	inStandby(t, func(s *standby) {
		ctx, cancel := context.WithCancel(s.t.Context())
		c, asked := s.add(ctx)
		s.restart(asked)
		begin := time.Now()
		time.Sleep(5 * time.Second)
		cancel()
		synctest.Wait() // the end of the bubble fails if a goroutine is left
		assert.True(t, c.Informer.IsStopped())
		time.Sleep(2 * time.Minute)
		assert.Empty(t, asked.since(begin))
	})
}

// client-go sends a list at once where the server refuses a streamed one, and one without a version
// where the server does not know that.
func TestAListInAnotherFormDoesNotWaitAgain(t *testing.T) {
	for name, refuse := range map[string]func(bool, metav1.ListOptions) error{
		"not streamed": func(_ bool, o metav1.ListOptions) error {
			if o.SendInitialEvents != nil {
				return apierrors.NewBadRequest("sendInitialEvents")
			}
			return nil
		},
		"without a version": func(everything bool, o metav1.ListOptions) error {
			if everything && o.ResourceVersion != "" {
				return apierrors.NewResourceExpired("restarted")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inStandby(t, func(s *standby) {
				running, cancel := context.WithCancel(s.t.Context())
				defer cancel()
				var all []*asks
				for range 10 {
					_, asked := s.add(running)
					asked.refuseWith(refuse)
					all = append(all, asked)
				}
				s.restart(all...)
				begin := time.Now()
				time.Sleep(3 * time.Minute)
				for _, asked := range all {
					lists := asked.since(begin)
					require.Len(t, lists, 2)
					assert.Equal(t, lists[0], lists[1])
				}
			})
		})
	}
}

// A list that has failed waits once more, because the server may have been overloaded.
func TestAListThatFailsWaitsAgain(t *testing.T) {
	for name, refusal := range map[string]error{
		"throttled": apierrors.NewTooManyRequests("later", 1), "broken": http.ErrServerClosed,
		"refused": syscall.ECONNREFUSED,
	} {
		t.Run(name, func(t *testing.T) {
			inStandby(t, func(s *standby) {
				running, cancel := context.WithCancel(s.t.Context())
				defer cancel()
				c, asked := s.add(running)
				asked.refuseWith(func(everything bool, _ metav1.ListOptions) error {
					if everything {
						return refusal
					}
					return nil
				})
				s.restart(asked)
				begin := time.Now()
				time.Sleep(10 * time.Minute)
				lists := asked.since(begin)
				asked.refuseWith(nil)
				for i := range lists[1:] {
					assert.Greater(t, lists[i+1]-lists[i], 10*time.Second)
				}
				assert.Greater(t, len(lists), 5)
				time.Sleep(3 * time.Minute)
				assert.Equal(t, version(s), c.Informer.GetStore().LastStoreSyncResourceVersion())
			})
		})
	}
}

// client-go would pause for up to a minute between watches that are refused.
func TestATermAfterALongOutageBeginsSoon(t *testing.T) {
	inStandby(t, func(s *standby) {
		running, cancel := context.WithCancel(s.t.Context())
		defer cancel()
		c, asked := s.add(running)
		asked.refuseWith(func(bool, metav1.ListOptions) error { return syscall.ECONNREFUSED })
		s.server.Restart(0)
		time.Sleep(10 * time.Minute)
		s.write()
		asked.refuseWith(nil)
		ctx, end := inTerm(s.t)
		defer end()
		begin := time.Now()
		require.NoError(t, fresh.Wait(ctx, c))
		assert.Less(t, time.Since(begin), 10*time.Millisecond)
		assert.Equal(t, version(s), c.Informer.GetStore().LastStoreSyncResourceVersion())
	})
}

// After its first list, a streamed one, the informer is on standby.
func TestAStreamThatBreaksIsListedLater(t *testing.T) {
	inStandby(t, func(s *standby) {
		running, cancel := context.WithCancel(s.t.Context())
		defer cancel()
		_, asked := s.add(running)
		s.server.Compact()
		s.write()
		s.server.Restart(1)
		begin := time.Now()
		time.Sleep(2 * time.Minute)
		for _, list := range asked.since(begin) {
			assert.Greater(t, list, 10*time.Second)
		}
	})
}

// A server that takes long for one object has enough to do.
func TestAStandbyWaitsForASlowServer(t *testing.T) {
	for name, last := range map[string]time.Duration{"at last": 0, "until it is quick": 3 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			inStandby(t, func(s *standby) {
				running, cancel := context.WithCancel(s.t.Context())
				defer cancel()
				_, asked := s.add(running)
				asked.slowDown(2 * time.Second)
				s.restart(asked)
				begin := time.Now()
				least, most := 5*time.Minute-time.Second, 6*time.Minute+5*time.Second
				if last > 0 {
					time.Sleep(last)
					asked.slowDown(900 * time.Millisecond)
					least, most = last, last+time.Minute+2*time.Second
				}
				time.Sleep(10 * time.Minute)
				lists := asked.since(begin)
				require.Len(t, lists, 1)
				assert.Greater(t, lists[0], least)
				assert.Less(t, lists[0], most)
			})
		})
	}
}

func TestATermThatBeginsWhileAServerIsSlowListsAtOnce(t *testing.T) {
	inStandby(t, func(s *standby) {
		running, cancel := context.WithCancel(s.t.Context())
		defer cancel()
		c, asked := s.add(running)
		asked.slowDown(2 * time.Second)
		asked.probed = make(chan struct{})
		s.restart(asked)
		s.write()
		<-asked.probed
		time.Sleep(500 * time.Millisecond)
		asked.slowDown(0)
		ctx, end := inTerm(s.t)
		defer end()
		begin := time.Now()
		require.NoError(t, fresh.WaitLatest(ctx, c))
		assert.Less(t, time.Since(begin), 10*time.Millisecond)
		assert.Equal(t, version(s), c.Informer.GetStore().LastStoreSyncResourceVersion())
	})
}
