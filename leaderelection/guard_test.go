package leaderelection_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// worker is an elector with a guarded clientset, on connections of their own to one API server in
// memory.
type worker struct {
	*leaderelection.Elector
	server *apisim.Server
	leases *apisim.Client
	link   *apisim.Client // of the work
	work   kubernetes.Interface
	writes atomic.Int32 // requests of the work that change something, as they are sent
	lost   chan time.Time
	logs   *observer.ObservedLogs
}

func newWorker(t *testing.T, change func(*leaderelection.Config)) *worker {
	t.Helper()
	core, logs := observer.New(zap.WarnLevel)
	server := apisim.NewServer()
	w := &worker{
		server: server, leases: server.Client("leases"), link: server.Client("work"), lost: make(chan time.Time, 10),
		logs: logs,
	}
	config := leaderelection.Config{
		Namespace: "ns", Name: "l", Logger: zap.New(core), OnLost: func(error) { w.lost <- time.Now() },
	}
	if change != nil {
		change(&config)
	}
	var err error
	w.Elector, err = leaderelection.New(clientset(t, w.leases, nil), config)
	require.NoError(t, err)
	w.work = clientset(t, w.link, func(rt http.RoundTripper) http.RoundTripper {
		return w.WrapTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				w.writes.Add(1)
			}
			return rt.RoundTrip(r)
		}))
	})
	return w
}

func clientset(t *testing.T, c *apisim.Client, wrap func(http.RoundTripper) http.RoundTripper) kubernetes.Interface {
	t.Helper()
	config := c.Config()
	if wrap != nil {
		config.Wrap(wrap)
	}
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

func (w *worker) create(ctx context.Context, name string) error {
	_, err := w.work.CoreV1().ConfigMaps("ns").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	return err
}

// abandonWrite begins a term, and sends a write that has no answer until its caller gives it up.
func (w *worker) abandonWrite(t *testing.T) {
	t.Helper()
	_, err := w.TryAcquire(t.Context())
	require.NoError(t, err)
	w.link.Inject(apisim.Faults{LoseRequest: apisim.Always})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Error(t, w.create(ctx, "x"))
}

// holder is who holds the Lease, as somebody else sees it.
func (w *worker) holder(t *testing.T) string {
	t.Helper()
	l, err := clientset(t, w.server.Client("kubectl"), nil).CoordinationV1().Leases("ns").Get(t.Context(), "l",
		metav1.GetOptions{})
	require.NoError(t, err)
	return *l.Spec.HolderIdentity
}

func assertNotSent(t *testing.T, err error) {
	t.Helper()
	assert.ErrorIs(t, err, leaderelection.ErrNotLeader)
	assert.NotErrorIs(t, err, leaderelection.ErrOutcomeUnknown)
}

func TestOnlyTheLeaderWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, nil)
		assertNotSent(t, w.create(t.Context(), "early"))
		_, err := w.work.CoreV1().ConfigMaps("ns").List(t.Context(), metav1.ListOptions{})
		assert.NoError(t, err, "reading is free")
		require.NoError(t, w.Run(t.Context(), func(ctx context.Context) error {
			assert.NoError(t, w.create(ctx, "with-its-context"))
			assert.NoError(t, w.create(t.Context(), "with-another"))
			return nil
		}))
		assertNotSent(t, w.create(t.Context(), "late"))
		assert.EqualValues(t, 2, w.writes.Load())
		assert.Empty(t, w.lost)
	})
}

func TestWriteUnderWayEndsWithTheTerm(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults apisim.Faults
		there  bool // what was to be created
	}{
		{"lost on its way", apisim.Faults{LoseRequest: apisim.Always}, false},
		{"committed, and the answer lost", apisim.Faults{LoseResponse: apisim.Always}, true},
		{"slow", apisim.Faults{Latency: time.Minute}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorker(t, nil)
				ctx, cancel := context.WithCancel(t.Context())
				var began time.Time
				first := true
				err := w.Run(ctx, func(lead context.Context) error {
					if !first {
						t.Error("contended again")
					}
					first, began = false, time.Now()
					w.link.Inject(c.faults)
					w.leases.Inject(apisim.Faults{LoseRequest: apisim.Always})
					results := make(chan error, 2)
					for name, ctx := range map[string]context.Context{"lead": lead, "other": ctx} {
						go func() { results <- w.create(ctx, name) }()
					}
					for range 2 {
						err := <-results
						assert.ErrorIs(t, err, leaderelection.ErrNotLeader)
						assert.ErrorIs(t, err, leaderelection.ErrOutcomeUnknown)
					}
					assert.LessOrEqual(t, time.Since(<-w.lost), 10*time.Millisecond, "after the loss")
					assert.Equal(t, usable, time.Since(began).Round(10*time.Millisecond))
					assert.EqualValues(t, 2, w.writes.Load(), "client-go does not try again")
					assertNotSent(t, w.create(ctx, "late"))
					assert.EqualValues(t, 2, w.writes.Load())
					cancel()
					return nil
				})
				require.ErrorIs(t, err, leaderelection.ErrLost)
				_, err = clientset(t, w.server.Client("kubectl"), nil).CoreV1().ConfigMaps("ns").Get(t.Context(),
					"lead", metav1.GetOptions{})
				assert.Equal(t, c.there, !apierrors.IsNotFound(err))
			})
		})
	}
}

func TestProxiedReadIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, nil)
		_, err := w.TryAcquire(t.Context())
		require.NoError(t, err)
		var sent atomic.Int32
		w.link.Inject(apisim.Faults{LoseRequest: func(*http.Request) bool {
			sent.Add(1)
			return true
		}})
		w.leases.Inject(apisim.Faults{Refuse: apisim.Always}) // with an error that client-go tries reads again on
		_, err = w.work.CoreV1().Services("ns").ProxyGet("http", "s", "80", "/", nil).DoRaw(t.Context())
		assert.ErrorIs(t, err, leaderelection.ErrOutcomeUnknown)
		assert.LessOrEqual(t, time.Since(<-w.lost), 10*time.Millisecond)
		assert.EqualValues(t, 1, sent.Load())
	})
}

func TestWorkOfAnEarlierTermIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, nil)
		_, ok := leaderelection.TermFrom(t.Context())
		assert.False(t, ok)
		var terms []leaderelection.Term
		var stale context.Context
		for range 2 {
			require.NoError(t, w.Run(t.Context(), func(ctx context.Context) error {
				term, ok := leaderelection.TermFrom(context.WithoutCancel(ctx))
				assert.True(t, ok)
				terms = append(terms, term)
				assert.NoError(t, w.create(ctx, "by-"+term.Token))
				if stale == nil {
					stale = context.WithoutCancel(ctx) // as work does that forgets to stop
				} else {
					assertNotSent(t, w.create(stale, "stale"))
				}
				return nil
			}))
		}
		require.Len(t, terms, 2)
		assert.Equal(t, terms[0].LeaseUID, terms[1].LeaseUID)
		assert.Equal(t, int32(1), terms[1].Transitions)
		assert.NotEqual(t, terms[0].Token, terms[1].Token)
		assert.EqualValues(t, 2, w.writes.Load())
	})
}

func TestGuardsOfTwoLeasesMindTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, inner := newWorker(t, nil), newWorker(t, nil)
		end, cancel := context.WithCancel(t.Context())
		err := outer.Run(end, func(ctx context.Context) error {
			return inner.Run(ctx, func(ctx context.Context) error {
				assert.NoError(t, outer.create(ctx, "a"))
				assert.NoError(t, inner.create(ctx, "b"))
				outer.leases.Inject(apisim.Faults{LoseRequest: apisim.Always})
				<-ctx.Done()
				assertNotSent(t, outer.create(context.WithoutCancel(ctx), "c"))
				assert.NoError(t, inner.create(context.WithoutCancel(ctx), "d"))
				cancel()
				return nil
			})
		})
		assert.ErrorIs(t, err, leaderelection.ErrLost)
		assert.Empty(t, inner.lost)
	})
}

func TestWatchOutlivesTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, nil)
		events, err := w.work.CoreV1().ConfigMaps("ns").Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		defer events.Stop()
		for _, name := range []string{"a", "b"} {
			require.NoError(t, w.Run(t.Context(), func(ctx context.Context) error { return w.create(ctx, name) }))
			e := <-events.ResultChan()
			assert.Equal(t, name, e.Object.(*corev1.ConfigMap).Name)
		}
	})
}

func TestElectorWorksThroughItsOwnGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := apisim.NewServer().Client("one-for-everything")
		var elector *leaderelection.Elector
		client := clientset(t, link, func(rt http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				return elector.WrapTransport(rt).RoundTrip(r)
			})
		})
		var err error
		elector, err = leaderelection.New(client, leaderelection.Config{
			Namespace: "ns", Name: "l", OnLost: func(err error) { t.Error(err) },
		})
		require.NoError(t, err)
		for range 2 { // the second takes over a release
			require.NoError(t, elector.Run(t.Context(), func(ctx context.Context) error {
				time.Sleep(time.Minute)
				return ctx.Err()
			}))
		}
		_, err = client.CoordinationV1().Leases("ns").Get(t.Context(), "l", metav1.GetOptions{})
		require.NoError(t, err)
		assertNotSent(t, client.CoordinationV1().Leases("ns").Delete(t.Context(), "l", metav1.DeleteOptions{}))
	})
}

// TestReleaseWaitsForWrites ends the lead function while a write is under way that no caller waits
// for.
func TestReleaseWaitsForWrites(t *testing.T) {
	const margin = 3 * time.Second
	lost := apisim.Faults{LoseRequest: apisim.Always}
	for _, c := range []struct {
		name   string
		faults apisim.Faults
		change func(*leaderelection.Config)
		end    time.Duration // of the write's context, if not zero
		work   time.Duration // from the write's beginning
		wait   time.Duration
		result error // of the write
		cut    int   // requests that had no answer
	}{
		{name: "none under way"},
		{name: "answered in time", faults: apisim.Faults{Latency: time.Second}, wait: 2 * time.Second},
		{
			name: "no answer", faults: lost,
			wait: margin + usable + margin, result: leaderelection.ErrOutcomeUnknown, cut: 1,
		},
		{
			name: "no answer for long", faults: lost, work: time.Hour,
			wait: margin + usable + margin, result: leaderelection.ErrOutcomeUnknown, cut: 1,
		},
		{
			name: "given up by its caller, and answered", faults: apisim.Faults{Latency: time.Second},
			end: 500 * time.Millisecond, work: time.Second, wait: time.Second, result: context.DeadlineExceeded,
		},
		{
			name: "given up before", faults: lost, end: time.Second, work: 3 * time.Second,
			wait: margin - 2*time.Second + usable + margin, result: context.DeadlineExceeded,
		},
		{
			name: "given up while it is waited for", faults: lost, end: time.Second,
			wait: margin + usable + margin, result: leaderelection.ErrNotLeader, cut: 1,
		},
		{
			name: "given up long before", faults: lost, end: time.Second, work: time.Minute,
			result: context.DeadlineExceeded,
		},
		{
			name: "given up a while before", faults: lost, end: time.Second, work: 11 * time.Second,
			wait: margin - 10*time.Second + usable + margin, result: context.DeadlineExceeded,
		},
		{
			name: "a margin longer than the term without renewals", faults: lost,
			change: func(c *leaderelection.Config) { c.LeaseDuration, c.Margin = 20*time.Second, 16*time.Second },
			wait:   (16 + 4 + 16) * time.Second, result: leaderelection.ErrOutcomeUnknown, cut: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorker(t, c.change)
				w.link.Inject(c.faults)
				result := make(chan error, 1)
				var ended time.Time
				require.NoError(t, w.Run(t.Context(), func(context.Context) error {
					ctx, cancel := t.Context(), context.CancelFunc(func() {})
					if c.end != 0 {
						ctx, cancel = context.WithTimeout(ctx, c.end)
					}
					go func() {
						defer cancel()
						result <- w.create(ctx, "x")
					}()
					time.Sleep(c.work)
					synctest.Wait()
					ended = time.Now()
					return nil
				}))
				assert.Equal(t, c.wait, time.Since(ended))
				assert.Empty(t, w.holder(t), "released")
				assert.Zero(t, w.logs.FilterMessageSnippet("not released").Len())
				if err := <-result; c.result == nil {
					assert.NoError(t, err)
				} else {
					assert.ErrorIs(t, err, c.result)
				}
				assert.Empty(t, w.lost)
				assert.Equal(t, c.cut, w.logs.FilterMessageSnippet("requests had no answer").Len())
			})
		})
	}
}

// TestNothingIsReleasedAtTheDeadline ends a term shortly before an outage makes it reach its
// deadline. A write that has no answer by then may still be carried out, so a successor has to wait
// until the Lease has expired.
func TestNothingIsReleasedAtTheDeadline(t *testing.T) {
	for name, giveUp := range map[string]time.Duration{"no answer": time.Hour, "given up": usable - 2*time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorker(t, nil)
				_, err := w.TryAcquire(t.Context())
				require.NoError(t, err)
				w.link.Inject(apisim.Faults{LoseRequest: apisim.Always})
				ctx, cancel := context.WithTimeout(t.Context(), giveUp)
				defer cancel()
				result := make(chan error, 1)
				go func() { result <- w.create(ctx, "x") }()
				time.Sleep(usable - time.Second)
				w.leases.Inject(apisim.Faults{LoseRequest: apisim.Always})
				begin := time.Now()
				require.Error(t, w.Release(t.Context()))
				assert.Equal(t, time.Second, time.Since(begin))
				assert.NotEmpty(t, w.holder(t))
				assert.Error(t, <-result)
				assert.Empty(t, w.lost, "it ended by itself")
			})
		})
	}
}

// TestLeaseIsHeldWhileItsReleaseWaits looks at the Lease as candidates do, until what was given up
// cannot be carried out any more.
func TestLeaseIsHeldWhileItsReleaseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, nil)
		w.abandonWrite(t)
		released := make(chan error, 1)
		go func() { released <- w.Release(t.Context()) }()
		synctest.Wait()
		for last := (metav1.MicroTime{}); len(released) == 0; time.Sleep(5 * time.Second) { // the release comes at 18 s
			l, err := clientset(t, w.server.Client("kubectl"), nil).CoordinationV1().Leases("ns").Get(t.Context(), "l",
				metav1.GetOptions{})
			require.NoError(t, err)
			assert.NotEmpty(t, *l.Spec.HolderIdentity)
			assert.True(t, l.Spec.RenewTime.After(last.Time), "not renewed")
			assert.False(t, w.IsLeader())
			assertNotSent(t, w.create(t.Context(), "y"))
			last = *l.Spec.RenewTime
		}
		require.NoError(t, <-released)
		assert.Empty(t, w.holder(t))
		assert.Empty(t, w.lost)
	})
}

// TestReleaseEndsWhenTheLeaseIsGone deletes what the release is still renewing.
func TestReleaseEndsWhenTheLeaseIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, nil)
		w.abandonWrite(t)
		leases := clientset(t, w.server.Client("kubectl"), nil).CoordinationV1().Leases("ns")
		require.NoError(t, leases.Delete(t.Context(), "l", metav1.DeleteOptions{}))
		begin := time.Now()
		require.NoError(t, w.Release(t.Context()))
		assert.Less(t, time.Since(begin), usable/2)
		assert.Empty(t, w.lost, "it ended by itself")
		time.Sleep(usable) // until the write is cut off
	})
}

func TestWritesAreRefusedWhileTheReleaseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, nil)
		_, err := w.TryAcquire(t.Context())
		require.NoError(t, err)
		w.link.Inject(apisim.Faults{Latency: time.Second})
		result := make(chan error, 1)
		go func() { result <- w.create(t.Context(), "x") }()
		synctest.Wait()
		time.AfterFunc(time.Second, func() {
			assertNotSent(t, w.create(t.Context(), "y"))
			assert.NotEmpty(t, w.holder(t))
		})
		require.NoError(t, w.Release(t.Context()))
		assert.NoError(t, <-result)
		assert.Empty(t, w.holder(t))
		assert.EqualValues(t, 1, w.writes.Load())
	})
}

func TestGuardConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, func(c *leaderelection.Config) {
			c.Guard = leaderelection.GuardConfig{
				Allow:           func(r *http.Request) bool { return r.Method == http.MethodDelete },
				NoServerTimeout: true,
			}
		})
		assert.True(t,
			apierrors.IsNotFound(w.work.CoreV1().ConfigMaps("ns").Delete(t.Context(), "x", metav1.DeleteOptions{})),
			"sent")
		assertNotSent(t, w.create(t.Context(), "x"))
		_, err := w.TryAcquire(t.Context())
		require.NoError(t, err)
		w.link.Inject(apisim.Faults{Refuse: func(r *http.Request) bool {
			assert.Empty(t, r.URL.RawQuery)
			return false
		}})
		assert.NoError(t, w.create(t.Context(), "x"))
		require.NoError(t, w.Release(t.Context()))
	})
}
