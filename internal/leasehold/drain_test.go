package leasehold

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
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// sleeper is the clock of a machine that can be suspended.
type sleeper struct {
	clock.Clock
	suspended atomic.Int64
}

func (s *sleeper) Now() clock.Reading {
	r := s.Clock.Now()
	r.Suspended = time.Duration(s.suspended.Load())
	return r
}

// whileDraining releases a lease while a guarded request has no answer, and runs test when the
// release waits for it.
func whileDraining(t *testing.T, test func(s *sleeper, k *killer, released <-chan error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, k := &sleeper{Clock: clock.System()}, &killer{}
		c := newCandidate(fake.NewSimpleClientset(), Config{
			Lease: name, Identity: "a", Timing: lease.Timing{}.WithDefaults(), NotHeld: errNotHeld, Clock: s,
			KillTimer: k,
			Log:       zap.NewNop(),
			OnLost:    func(*lease.LostError) {}, OnHolder: func(lease.Record) {}, OnFinish: func() {},
		})
		h, err := c.Try(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, _ := request(ctx, http.MethodPost, pods)
		go func() { _, _ = c.Guard.Wrap(roundTripper(stuck)).RoundTrip(r) }()
		synctest.Wait()
		released := make(chan error, 1)
		go func() { released <- h.Release(t.Context()) }()
		time.Sleep(100 * time.Millisecond)
		require.Empty(t, released)
		test(s, k, released)
	})
}

func TestKillTimerStaysArmedWhileRequestsAreUnderWay(t *testing.T) {
	whileDraining(t, func(_ *sleeper, k *killer, released <-chan error) {
		assert.Zero(t, k.stopped.Load(), "stopped now, it could send the rest of the request when it is woken")
		require.NoError(t, <-released)
		assert.EqualValues(t, 1, k.stopped.Load())
		assert.Greater(t, len(k.at), 3, "it follows the deadline, which is renewed meanwhile")
		renewed := len(k.at)
		time.Sleep(time.Minute)
		assert.Len(t, k.at, renewed, "not armed again")
	})
}

func TestSuspendedReleaseCutsRequestsSoonAfterItsDeadline(t *testing.T) {
	whileDraining(t, func(s *sleeper, _ *killer, released <-chan error) {
		begin := time.Now()
		s.suspended.Add(int64(time.Minute))
		require.ErrorIs(t, <-released, errNotDrained)
		assert.LessOrEqual(t, time.Since(begin), checkInterval, "a successor may have begun")
	})
}

// TestReleaseEndsWhatIsOpen releases a lease while an answer is being read.
func TestReleaseEndsWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(fake.NewSimpleClientset(), Config{
			Lease: name, Identity: "a", Timing: lease.Timing{}.WithDefaults(), NotHeld: errNotHeld,
			Clock:  clock.System(),
			Log:    zap.NewNop(),
			OnLost: func(*lease.LostError) {}, OnHolder: func(lease.Record) {}, OnFinish: func() {},
		})
		h, err := c.Try(t.Context())
		require.NoError(t, err)
		ctx, scope := h.Scope(t.Context())
		defer scope.End()
		r, _ := request(t.Context(), http.MethodGet, pods+"/p/proxy/logs")
		resp, err := c.Guard.Wrap(roundTripper(streaming)).RoundTrip(r)
		require.NoError(t, err)
		read := make(chan error, 1)
		go func() {
			_, err := resp.Body.Read(make([]byte, 1))
			read <- err
		}()
		require.NoError(t, h.Release(t.Context()))
		synctest.Wait()
		require.Len(t, read, 1, "it goes on after the lease has been released")
		assert.ErrorIs(t, <-read, errNotHeld)
		assert.Error(t, ctx.Err(), "and so does what has a scope")
		assert.NoError(t, resp.Body.Close())
	})
}
