package leaderelection_test

import (
	"context"
	"io"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/fresh"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// standby is a process with a warm cache of ConfigMaps, an elector, and a client that it guards.
type standby struct {
	connection *apisim.Client // of the cache
	work       *apisim.Client // of guarded
	warm       fresh.Cache
	elector    *leaderelection.Elector
	guarded    coreclient.ConfigMapInterface
	requests   atomic.Int64 // of the cache's client
}

func startStandby(ctx context.Context, t *testing.T, server *apisim.Server, name string, guard bool) *standby {
	t.Helper()
	s := &standby{connection: server.Client(name + "-cache"), work: server.Client(name + "-work")}
	config := s.connection.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			s.requests.Add(1)
			return next.RoundTrip(r)
		})
	})
	s.warm = fresh.Cache{
		Resource: corev1.Resource("configmaps"),
		Source:   fresh.Source(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("ns")),
	}
	s.warm.Informer = cache.NewSharedIndexInformer(s.warm.Source, &corev1.ConfigMap{}, 0, cache.Indexers{})
	go s.warm.Informer.RunWithContext(ctx)
	require.True(t, cache.WaitForCacheSync(ctx.Done(), s.warm.Informer.HasSynced))
	var err error
	s.elector, err = leaderelection.New(kubernetes.NewForConfigOrDie(server.Client(name).Config()),
		leaderelection.Config{
			Namespace: "ns", Name: "l", Identity: name, StepDown: 3 * time.Second, OnLost: func(error) {},
		})
	require.NoError(t, err)
	own := s.work.Config()
	if guard {
		own.Wrap(s.elector.WrapTransport)
	}
	s.guarded = kubernetes.NewForConfigOrDie(own).CoreV1().ConfigMaps("ns")
	return s
}

// lead waits for the leadership and for the cache, calls work, and releases the Lease. It returns how
// long the cache took, and how many requests.
func (s *standby) lead(t *testing.T, work func(ctx context.Context)) (took time.Duration, requests int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.NoError(t, s.elector.Run(ctx, func(ctx context.Context) error {
		begin, before := time.Now(), s.requests.Load()
		if err := fresh.Wait(ctx, s.warm); err != nil {
			return err
		}
		took, requests = time.Since(begin), s.requests.Load()-before
		work(ctx)
		cancel()
		return nil
	}))
	return took, requests
}

func (s *standby) create(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := s.guarded.Create(ctx, c, metav1.CreateOptions{})
	require.NoError(t, err)
}

func (s *standby) shows(name string) bool {
	_, exists, err := s.warm.Informer.GetStore().GetByKey("ns/" + name)
	return err == nil && exists
}

// inTurns runs a before b, whose watch is late by lag.
func inTurns(t *testing.T, guard bool, lag time.Duration, f func(t *testing.T, server *apisim.Server, a, b *standby)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		a, b := startStandby(ctx, t, server, "a", guard), startStandby(ctx, t, server, "b", guard)
		b.connection.Inject(apisim.Faults{WatchLag: lag})
		f(t, server, a, b)
	})
}

func nothing(context.Context) {}

// After a release, a term begins when the cache shows what was written before, without a request.
func TestATermAfterAReleaseWaitsOnlyForWhatWasWritten(t *testing.T) {
	for _, lag := range []time.Duration{0, 100 * time.Millisecond, 3 * time.Second} {
		t.Run(lag.String(), func(t *testing.T) {
			inTurns(t, true, lag, func(t *testing.T, server *apisim.Server, a, b *standby) {
				a.lead(t, nothing) // it knows nothing of the time before, and lists
				a.lead(t, func(ctx context.Context) { a.create(ctx, t, "c") })
				_, err := kubernetes.NewForConfigOrDie(server.Client("other").Config()).CoreV1().Pods("ns").
					Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
				require.NoError(t, err)
				took, requests := b.lead(t, func(context.Context) { assert.True(t, b.shows("c")) })
				assert.InDelta(t, lag, took, float64(10*time.Millisecond))
				assert.Equal(t, lag > 500*time.Millisecond, requests > 0, "a watch, if it takes long")
			})
		})
	}
}

// A term knows what all terms before it have written, even if it has written nothing.
func TestATermKnowsAllTermsBeforeIt(t *testing.T) {
	inTurns(t, true, 2*time.Second, func(t *testing.T, _ *apisim.Server, a, b *standby) {
		a.lead(t, func(ctx context.Context) { a.create(ctx, t, "c") })
		a.lead(t, nothing)
		took, _ := b.lead(t, func(context.Context) { assert.True(t, b.shows("c")) })
		assert.InDelta(t, 2*time.Second, took, float64(10*time.Millisecond))
		took, requests := b.lead(t, nothing)
		assert.Zero(t, took)
		assert.Zero(t, requests)
	})
}

// What is not known is asked for: after a deletion, after a term without a guarded client, and after
// a leader that has died.
func TestATermThatDoesNotKnowWhatWasWrittenAsks(t *testing.T) {
	for name, c := range map[string]struct {
		guard bool
		work  func(ctx context.Context, t *testing.T, a *standby)
	}{
		"deleted": {true, func(ctx context.Context, t *testing.T, a *standby) {
			a.create(ctx, t, "c")
			require.NoError(t, a.guarded.Delete(ctx, "c", metav1.DeleteOptions{}))
		}},
		"not guarded": {false, func(ctx context.Context, t *testing.T, a *standby) { a.create(ctx, t, "c") }},
	} {
		t.Run(name, func(t *testing.T) {
			inTurns(t, c.guard, 0, func(t *testing.T, _ *apisim.Server, a, b *standby) {
				a.lead(t, func(ctx context.Context) { c.work(ctx, t, a) })
				_, requests := b.lead(t, nothing)
				assert.Positive(t, requests)
			})
		})
	}
	t.Run("died", func(t *testing.T) {
		inTurns(t, true, 0, func(t *testing.T, _ *apisim.Server, a, b *standby) {
			a.lead(t, nothing)
			_, err := a.elector.TryAcquire(t.Context())
			require.NoError(t, err)
			a.create(t.Context(), t, "c") // and it says no more
			_, requests := b.lead(t, nothing)
			assert.Positive(t, requests)
		})
	})
}

// A caller gives up its last write at the end of the term. Its answer counts all the same.
func TestAWriteWithoutACallerIsKnown(t *testing.T) {
	inTurns(t, true, 2*time.Second, func(t *testing.T, _ *apisim.Server, a, b *standby) {
		a.lead(t, func(ctx context.Context) { a.create(ctx, t, "first") })
		<-time.After(time.Minute)
		require.True(t, b.shows("first"), "or it would have to wait for that one")
		a.lead(t, func(ctx context.Context) {
			a.work.Inject(apisim.Faults{Latency: 200 * time.Millisecond})
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err := a.guarded.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
				metav1.CreateOptions{})
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		_, requests := b.lead(t, func(context.Context) { assert.True(t, b.shows("c")) })
		assert.LessOrEqual(t, requests, int64(1), "no list")
	})
}

// The same if the answer has begun to arrive when the caller gives up.
func TestAWriteWhoseCallerLeavesBeforeTheBodyIsKnown(t *testing.T) {
	inTurns(t, true, 2*time.Second, func(t *testing.T, _ *apisim.Server, a, b *standby) {
		a.lead(t, func(ctx context.Context) { a.create(ctx, t, "first") })
		<-time.After(time.Minute)
		require.True(t, b.shows("first"), "or it would have to wait for that one")
		config := a.work.Config()
		config.Wrap(slowBodies)
		config.Wrap(a.elector.WrapTransport)
		a.guarded = kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("ns")
		a.lead(t, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err := a.guarded.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
				metav1.CreateOptions{})
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		_, requests := b.lead(t, func(context.Context) { assert.True(t, b.shows("c")) })
		assert.LessOrEqual(t, requests, int64(1), "no list")
	})
}

// slowBodies has the bodies of answers arrive later than their headers.
func slowBodies(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil {
			resp.Body = &slowBody{resp.Body, r.Context().Done()}
		}
		return resp, err
	})
}

type slowBody struct {
	io.ReadCloser
	ended <-chan struct{} // the request
}

func (b *slowBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(200 * time.Millisecond):
		return b.ReadCloser.Read(p)
	case <-b.ended:
		return 0, context.Canceled
	}
}

// The versions are those of the record's annotation: a program of any language may read them.
func TestAReleaseNamesWhatWasWritten(t *testing.T) {
	inTurns(t, true, 0, func(t *testing.T, server *apisim.Server, a, _ *standby) {
		version := ""
		a.lead(t, func(ctx context.Context) {
			a.create(ctx, t, "c")
			c, err := a.guarded.Get(ctx, "c", metav1.GetOptions{})
			require.NoError(t, err)
			version = c.ResourceVersion
		})
		l, err := kubernetes.NewForConfigOrDie(server.Client("x").Config()).CoordinationV1().Leases("ns").
			Get(t.Context(), "l", metav1.GetOptions{})
		require.NoError(t, err)
		text := l.Annotations["bellwether.dev/written"]
		mark := l.Annotations["bellwether.dev/released"]
		require.True(t, strings.HasPrefix(text, mark+" "), text)
		assert.Contains(t, text, `"configmaps":`+strconv.Quote(version))
	})
}
