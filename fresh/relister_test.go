package fresh_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/fresh"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// inRelister runs f in a bubble with a cache that has synced, whose source is a Relister.
func inRelister(t *testing.T, wrap func(cache.ListerWatcher) cache.ListerWatcher, f func(s *standby)) {
	t.Helper()
	inStandby(t, func(s *standby) {
		client := kubernetes.NewForConfigOrDie(s.connection.Config())
		source := cache.ListerWatcher(fresh.Source(client.CoreV1().ConfigMaps("default")))
		if wrap != nil {
			source = wrap(source)
		}
		r := fresh.NewRelister(source)
		s.cache.Source, s.cache.RelistAfter = r, 5*time.Second
		s.cache.Informer = cache.NewSharedIndexInformer(r, &corev1.ConfigMap{}, 0, cache.Indexers{})
		ctx, cancel := context.WithCancel(s.t.Context())
		defer synctest.Wait()
		defer cancel()
		go s.cache.Informer.RunWithContext(ctx)
		require.True(t, cache.WaitForCacheSync(ctx.Done(), s.cache.Informer.HasSynced))
		f(s)
	})
}

// A watch that hangs costs a list, not the term. The informer goes on with another watch.
func TestAWatchThatHangsIsReplacedByAList(t *testing.T) {
	inRelister(t, nil, func(s *standby) {
		s.connection.Inject(apisim.Faults{WatchLag: time.Hour})
		s.write()
		took := s.requireFresh()
		assert.GreaterOrEqual(t, took, 5*time.Second)
		assert.Less(t, took, 8*time.Second)
		s.connection.Inject(apisim.Faults{})
		time.Sleep(2 * time.Hour) // that watch has ended, too
		s.write()
		assert.Less(t, s.requireFresh(), 3*time.Second)
	})
}

// Nor does a watch, or a list, of the informer that gets no answer at all.
func TestARequestOfTheInformerWithoutAnAnswerIsReplacedByAList(t *testing.T) {
	for name, lost := range map[string]func(*http.Request) bool{
		"a watch": func(r *http.Request) bool { return r.URL.Query().Has("watch") },
		"a list": func(r *http.Request) bool {
			return !r.URL.Query().Has("watch") && r.URL.Query().Get("limit") != "1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			inRelister(t, nil, func(s *standby) {
				begun := time.Now()
				s.connection.Inject(apisim.Faults{LoseRequest: func(r *http.Request) bool {
					return lost(r) && time.Since(begun) < 12*time.Minute
				}})
				if name == "a list" {
					s.server.Compact()
				}
				s.server.Restart(0) // the informer has to ask once more
				time.Sleep(11 * time.Minute)
				s.write()
				time.Sleep(time.Minute)
				assert.Less(t, s.requireFresh(), 2*time.Minute)
			})
		})
	}
}

// A cache that catches up in time lists nothing. Otherwise the list is a consistent read.
func TestARelistIsOneConsistentList(t *testing.T) {
	lists := &listLog{}
	inRelister(t, lists.wrap, func(s *standby) {
		lists.take()
		s.connection.Inject(apisim.Faults{WatchLag: 3 * time.Second})
		s.write()
		s.requireFresh()
		assert.Empty(t, lists.take())
		s.connection.Inject(apisim.Faults{WatchLag: time.Hour})
		s.write()
		s.requireFresh()
		assert.Equal(t, []metav1.ListOptions{{}}, lists.take())
	})
}

// Versions that are no numbers are compared with nothing but that of the list.
func TestAnInformerWithoutComparableVersionsLists(t *testing.T) {
	inRelister(t, inWords, func(s *standby) {
		s.connection.Inject(apisim.Faults{WatchLag: time.Minute})
		for range 3 {
			time.Sleep(5 * time.Minute) // the informer pauses longer between lists that follow each other soon
			s.write()
			assert.Less(t, s.requireFresh(), 3*time.Second, "it does not wait for RelistAfter")
		}
		s.cache.RelistAfter = 0
		require.ErrorIs(t, fresh.Wait(s.t.Context(), s.cache), fresh.ErrNotComparable)
	})
}

// Users change objects all the time: the watch after the list does not hide it.
func TestARelistEndsWhileObjectsChange(t *testing.T) {
	inRelister(t, inWords, func(s *standby) {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
		var writing sync.WaitGroup
		writing.Go(func() {
			for ctx.Err() == nil {
				s.write()
				time.Sleep(time.Millisecond)
			}
		})
		before := s.written.Load()
		assert.NoError(t, fresh.Wait(ctx, s.cache))
		assert.GreaterOrEqual(t, s.shown(), before)
		cancel()
		writing.Wait()
		time.Sleep(time.Second)
		assert.Equal(t, s.written.Load(), s.shown(), "the informer has a watch again")
	})
}

// An API server that does not answer keeps the wait, up to its context. The informer is as before.
func TestARelistEndsWithItsContext(t *testing.T) {
	inRelister(t, nil, func(s *standby) {
		s.write()
		s.connection.Inject(apisim.Faults{Refuse: apisim.Always, Silent: true})
		ctx, cancel := context.WithTimeoutCause(s.t.Context(), time.Minute, errors.New("too long"))
		defer cancel()
		err := fresh.Wait(ctx, s.cache)
		require.ErrorContains(t, err, "fresh: the informer of configmaps has not listed again: too long")
		s.connection.Inject(apisim.Faults{})
		time.Sleep(2 * time.Minute)
		assert.Equal(t, s.written.Load(), s.shown())
	})
}

func TestManyWaitsRelistInTurns(t *testing.T) {
	inRelister(t, nil, func(s *standby) {
		s.connection.Inject(apisim.Faults{WatchLag: time.Hour})
		s.write()
		var waits sync.WaitGroup
		for range 5 {
			waits.Go(func() {
				assert.NoError(t, fresh.WaitLatest(s.t.Context(), s.cache))
				assert.Equal(t, s.written.Load(), s.shown())
			})
		}
		waits.Wait()
	})
}

// A list of Wait itself, while another Wait has the informer list, is not the informer's.
func TestAWaitThatBeginsDuringARelistDoesNotHinderIt(t *testing.T) {
	inRelister(t, nil, func(s *standby) {
		s.connection.Inject(apisim.Faults{WatchLag: time.Hour})
		s.write()
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
		defer cancel()
		var waits sync.WaitGroup
		for begin := range 10 {
			waits.Go(func() {
				time.Sleep(time.Duration(begin) * time.Second)
				assert.NoError(t, fresh.WaitLatest(ctx, s.cache))
			})
		}
		waits.Wait()
		assert.Equal(t, s.written.Load(), s.shown())
	})
}

func TestOnlyARelisterRelists(t *testing.T) {
	inStandby(t, func(s *standby) {
		s.cache.RelistAfter = time.Second
		assert.EqualError(t, fresh.Wait(s.t.Context(), s.cache), "fresh: Cache.RelistAfter of configmaps: "+
			"Source must be a *fresh.Relister (got *cache.listWatcherWithWatchListSemanticsWrapper)")
		s.cache.RelistAfter = -time.Second
		assert.EqualError(t, fresh.WaitLatest(s.t.Context(), s.cache),
			"fresh: Cache.RelistAfter of configmaps: must not be negative (got -1s)")
	})
}

// listLog has the options of lists of more than one object.
type listLog struct {
	cache.ListerWatcherWithContext
	mu    sync.Mutex
	lists []metav1.ListOptions
}

func (l *listLog) wrap(source cache.ListerWatcher) cache.ListerWatcher {
	l.ListerWatcherWithContext = cache.ToListerWatcherWithContext(source)
	return &cache.ListWatch{ListWithContextFunc: l.ListWithContext, WatchFuncWithContext: l.WatchWithContext}
}

func (l *listLog) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.Limit != 1 {
		l.mu.Lock()
		l.lists = append(l.lists, o)
		l.mu.Unlock()
	}
	return l.ListerWatcherWithContext.ListWithContext(ctx, o)
}

func (l *listLog) take() []metav1.ListOptions {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.lists
	l.lists = nil
	return taken
}

// words is a source whose versions are no numbers.
type words struct{ cache.ListerWatcherWithContext }

func inWords(source cache.ListerWatcher) cache.ListerWatcher {
	w := words{cache.ToListerWatcherWithContext(source)}
	return &cache.ListWatch{ListWithContextFunc: w.ListWithContext, WatchFuncWithContext: w.WatchWithContext}
}

const word = "version-"

func (w words) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.ResourceVersion = strings.TrimPrefix(o.ResourceVersion, word)
	list, err := w.ListerWatcherWithContext.ListWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	l, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	l.SetResourceVersion(word + l.GetResourceVersion())
	return list, meta.EachListItem(list, reword)
}

func (w words) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.ResourceVersion = strings.TrimPrefix(o.ResourceVersion, word)
	events, err := w.ListerWatcherWithContext.WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	reworded := &wordWatch{Interface: events, events: make(chan watch.Event), stopped: make(chan struct{})}
	go reworded.run()
	return reworded, nil
}

type wordWatch struct {
	watch.Interface
	events  chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

func (w *wordWatch) run() {
	defer close(w.events)
	for e := range w.Interface.ResultChan() {
		if e.Type != watch.Error {
			_ = reword(e.Object)
		}
		select {
		case w.events <- e:
		case <-w.stopped:
			return
		}
	}
}

func (w *wordWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *wordWatch) Stop() {
	w.stop.Do(func() { close(w.stopped) })
	w.Interface.Stop()
}

func reword(o runtime.Object) error {
	accessor, err := meta.Accessor(o)
	if err == nil {
		accessor.SetResourceVersion(word + accessor.GetResourceVersion())
	}
	return err
}
