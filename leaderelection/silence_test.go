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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	electors "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/proof"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// silence is a way to an API server on which requests may wait, and need not be answered.
type silence struct {
	base http.RoundTripper
	// wait returns how long a request waits before it is sent. A negative value means for ever.
	wait func(*http.Request) time.Duration
}

func (s silence) RoundTrip(r *http.Request) (*http.Response, error) {
	d := s.wait(r)
	if d == 0 {
		return s.base.RoundTrip(r)
	}
	var sent <-chan time.Time
	if d > 0 {
		sent = time.After(d)
	}
	select {
	case <-sent:
		return s.base.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// outages are those of each period: from its start on, requests are accepted and never answered.
func outages(d, period time.Duration) func(*http.Request) time.Duration {
	begin := time.Now()
	return func(*http.Request) time.Duration {
		if since := time.Since(begin); since >= period && since%period < d {
			return -1
		}
		return 0
	}
}

// webhook is one that is called for writes of Leases, never answers, and may be ignored after d.
func webhook(d time.Duration) func(*http.Request) time.Duration {
	return func(r *http.Request) time.Duration {
		if r.Method == http.MethodGet {
			return 0
		}
		return d
	}
}

func slow(d time.Duration) func(*http.Request) time.Duration {
	return func(*http.Request) time.Duration { return d }
}

// waits makes a wait of silence, in the bubble in which it is used.
type waits func() func(*http.Request) time.Duration

// ours runs our elector for d, and returns how many terms were lost.
func ours(t *testing.T, wait waits, d time.Duration) (lost int, led time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config := apisim.NewServer().Client("a").Config()
		config.Transport = silence{config.Transport, wait()}
		client, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
		require.NoError(t, err)
		elector, err := leaderelection.New(client, leaderelection.Config{
			Namespace: "ns", Name: "l", Identity: "a", OnLost: func(error) { lost++ },
		})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), d+30*time.Second)
		defer cancel()
		require.NoError(t, elector.Run(ctx, func(ctx context.Context) error {
			begin := time.Now()
			<-ctx.Done()
			led += time.Since(begin)
			return nil
		}))
	})
	return lost, led
}

// shards is ours with the lease of a shard.
func shards(t *testing.T, wait waits, d time.Duration) (lost int, led time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config := apisim.NewServer().Client("a").Config()
		config.Transport = silence{config.Transport, wait()}
		client, err := kubernetes.NewForConfig(shardlease.LeaseConfig(config))
		require.NoError(t, err)
		shard, err := shardlease.New(client, shardlease.Config{
			Namespace: "ns", Ring: "r", Identity: "a", OnLost: func(error) { lost++ },
		})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), d+30*time.Second)
		defer cancel()
		require.NoError(t, shard.Run(ctx, func(ctx context.Context) error {
			begin := time.Now()
			<-ctx.Done()
			led += time.Since(begin)
			return nil
		}))
	})
	return lost, led
}

// theirs is ours with client-go's elector and its customary durations.
func theirs(t *testing.T, wait waits, d time.Duration) (lost int, led time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config := apisim.NewServer().Client("a").Config()
		config.Transport = silence{config.Transport, wait()}
		client, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), d+30*time.Second)
		defer cancel()
		for ctx.Err() == nil {
			began := make(chan time.Time, 1)
			electors.RunOrDie(ctx, electors.LeaderElectionConfig{
				Lock: &resourcelock.LeaseLock{
					LeaseMeta: metav1.ObjectMeta{Namespace: "ns", Name: "l"}, Client: client.CoordinationV1(),
					LockConfig: resourcelock.ResourceLockConfig{Identity: "a"},
				},
				LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
				Callbacks: electors.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { began <- time.Now() }, OnStoppedLeading: func() {},
				},
			})
			synctest.Wait()
			select {
			case begin := <-began:
				led += time.Since(begin)
			default:
			}
			if ctx.Err() == nil {
				lost++
			}
		}
	})
	return lost, led
}

// silences are some that a term outlasts.
var silences = []struct {
	name string
	wait waits
}{
	{"outages of 2 s", func() func(*http.Request) time.Duration { return outages(2*time.Second, time.Minute) }},
	{"outages of 5 s", func() func(*http.Request) time.Duration { return outages(5*time.Second, time.Minute) }},
	{"outages of 8 s", func() func(*http.Request) time.Duration { return outages(8*time.Second, time.Minute) }},
	{"outages of almost D - M - R at any time", func() func(*http.Request) time.Duration {
		return outages(8700*time.Millisecond, 61*time.Second+300*time.Millisecond)
	}},
	{"a webhook of 2 s", func() func(*http.Request) time.Duration { return webhook(2 * time.Second) }},
	{"a webhook of 3 s", func() func(*http.Request) time.Duration { return webhook(3 * time.Second) }},
	{"a webhook of 5 s", func() func(*http.Request) time.Duration { return webhook(5 * time.Second) }},
	{"a webhook of 8 s", func() func(*http.Request) time.Duration { return webhook(8 * time.Second) }},
	{"a server that takes 2.5 s", func() func(*http.Request) time.Duration {
		return slow(2500 * time.Millisecond)
	}},
}

// A leader, or a shard, is not lost while an answer that could renew its Lease may still come.
func TestTermOutlastsSilence(t *testing.T) {
	for _, c := range silences {
		t.Run(c.name, func(t *testing.T) { requireKept(t, c.wait, 5*time.Minute) })
	}
}

// The same for an hour, beside client-go's elector.
func TestSimulatedSilence(t *testing.T) {
	proof.Simulation(t)
	for _, c := range silences {
		t.Run(c.name, func(t *testing.T) {
			requireKept(t, c.wait, time.Hour)
			lost, led := theirs(t, c.wait, time.Hour)
			t.Logf("client-go: lost %d, held for %v", lost, led)
		})
	}
}

func requireKept(t *testing.T, wait waits, d time.Duration) {
	t.Helper()
	for name, run := range map[string]func(*testing.T, waits, time.Duration) (int, time.Duration){
		"leader": ours, "shard": shards,
	} {
		lost, held := run(t, wait, d)
		t.Logf("%s: lost %d, held for %v", name, lost, held)
		assert.Zero(t, lost)
		assert.Greater(t, held, d-time.Minute)
	}
}

// A read proves that a write was not stored before. It does not prove that it will be.
func TestReadsAloneKeepNoTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Bool
		a := newSilent(t, "a", func(r *http.Request) time.Duration {
			if hang.Load() && r.Method != http.MethodGet {
				return -1
			}
			return 0
		}, apisim.NewServer())
		a.start(t)
		time.Sleep(time.Minute + time.Second)
		require.True(t, a.IsLeader())
		hang.Store(true)
		time.Sleep(usable)
		assert.False(t, a.IsLeader())
		said := a.logs.FilterMessage("no answer to a write of the Lease, which is being repeated").All()
		require.NotEmpty(t, said)
		assert.Contains(t, said[0].ContextMap()["possible cause"], "webhook")
	})
}

// Terms that were prolonged by writes without an answer for seconds end before the next one begins.
func TestSlowWritesKeepTheMargin(t *testing.T) {
	for trial := range 60 {
		synctest.Test(t, func(t *testing.T) {
			server := apisim.NewServer()
			begin := time.Now()
			silent := 40*time.Second + time.Duration(trial)*200*time.Millisecond
			a := newSilent(t, "a", func(r *http.Request) time.Duration {
				switch {
				case time.Since(begin) > silent:
					return -1
				case r.Method != http.MethodGet:
					return time.Duration(trial%9) * time.Second
				}
				return 0
			}, server)
			b := newSilent(t, "b", func(*http.Request) time.Duration { return 0 }, server)
			a.start(t)
			_, leads := a.after(10 * time.Second)
			require.True(t, leads)
			b.start(t)
			require.ErrorIs(t, <-a.lost, leaderelection.ErrLost)
			ended := time.Now()
			_, leads = b.after(time.Minute)
			require.True(t, leads)
			assert.GreaterOrEqual(t, time.Since(ended), 3*time.Second, "trial %d: the margin", trial)
		})
	}
}

// newSilent is newCandidate on a way on which requests may wait.
func newSilent(t *testing.T, name string, wait func(*http.Request) time.Duration, server *apisim.Server) *candidate {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	c := &candidate{
		between: &between{}, started: make(chan struct{}, 10), lost: make(chan error, 10), logs: logs,
		done: make(chan error, 1), server: server,
	}
	config := server.Client(name).Config()
	config.Transport = silence{config.Transport, wait}
	client, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	require.NoError(t, err)
	c.Elector, err = leaderelection.New(client, leaderelection.Config{
		Namespace: "ns", Name: "l", Identity: name, Logger: zap.New(core), OnLost: func(err error) { c.lost <- err },
	})
	require.NoError(t, err)
	return c
}
