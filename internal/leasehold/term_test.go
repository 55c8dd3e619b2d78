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

func TestWorkThatOutlivesItsTermHasLostIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var losses []*lease.LostError
		timing, system := lease.Timing{}.WithDefaults(), clock.System()
		term := newTerm(Config{
			Lease: name, Identity: "a", Timing: timing, Clock: system, OnLost: func(err *lease.LostError) {
				losses = append(losses, err)
			},
		}, nil, system.Now())
		term.timer.Stop() // not scheduled yet: the process has just been woken, and work was faster
		time.Sleep(timing.Duration - timing.Margin)
		assert.False(t, term.begin(nil), "too late to begin work")
		err := term.finish()
		require.ErrorIs(t, err, lease.ErrLost)
		require.ErrorIs(t, err, lease.ErrDeadline)
		assert.Len(t, losses, 1)
		term.Expire()
		assert.Len(t, losses, 1, "told once")
		assert.Equal(t, err, term.finish())
	})
}

func TestFinishedTermCannotBeLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timing, system := lease.Timing{}.WithDefaults(), clock.System()
		term := newTerm(Config{Timing: timing, Clock: system, OnLost: func(*lease.LostError) { t.Error("lost") }},
			nil, system.Now())
		require.NoError(t, term.finish())
		assert.Zero(t, term.Remaining())
		time.Sleep(timing.Duration)
		term.lose(lease.ErrTaken, "b")
		term.extend(system.Now())
		assert.NoError(t, term.finish())
		assert.Zero(t, term.Remaining())
	})
}

// stepper is a clock whose wall time can be set.
type stepper struct {
	clock.Clock
	offset atomic.Int64
}

func (s *stepper) Now() clock.Reading {
	r := s.Clock.Now()
	r.Wall = r.Wall.Add(time.Duration(s.offset.Load()))
	return r
}

func TestTermThatWasSeenAtItsDeadlineIsLostWhateverTheWallClockSaysThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var losses []*lease.LostError
		s := &stepper{Clock: clock.System()}
		term := newTerm(Config{
			Lease: name, Identity: "a", Timing: lease.Timing{}.WithDefaults(), Clock: s,
			OnLost: func(err *lease.LostError) {
				losses = append(losses, err)
			},
		}, nil, s.Now())
		synctest.Wait() // until its timer waits
		s.offset.Store(int64(time.Hour))
		require.Zero(t, term.Remaining())
		s.offset.Store(0)
		require.ErrorIs(t, term.conclude(), lease.ErrDeadline)
		assert.True(t, term.Lost(), "or work would go on without a term, without renewals")
		assert.Len(t, losses, 1)
	})
}

// stalled is a term whose process has been stopped past its deadline, and was woken in this
// instant: the timer has not been scheduled yet.
func stalled() *Term {
	system := clock.System()
	term := newTerm(Config{
		Lease: name, Identity: "a", Timing: lease.Timing{}.WithDefaults(), Clock: system,
		OnLost: func(*lease.LostError) {},
	}, newGuard(name, errNotHeld, GuardConfig{}), system.Now())
	stall(term)
	return term
}

func stall(term *Term) {
	synctest.Wait()
	term.timer.Stop()
	time.Sleep(usable)
}

func TestGuardLooksAtTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuardian(ok, GuardConfig{})
		require.NoError(t, g.term.finish())
		g.term = stalled()
		g.Guard.term.Store(g.term)
		assert.ErrorIs(t, g.do(t.Context(), http.MethodPost, pods), errNotHeld)
		assert.Zero(t, g.sent.Load(), "a stopped process would write after its successor has begun")
	})
}

func TestNoWorkBeginsPastTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(fake.NewClientset(), Config{
			Lease: name, Identity: "a", Timing: lease.Timing{}.WithDefaults(), NotHeld: errNotHeld,
			Clock: clock.System(), Log: zap.NewNop(),
			OnLost: func(*lease.LostError) {}, OnHolder: func(lease.Record) {},
			OnFinish: func() {}, OnRenewal: func(time.Duration, error) {},
		})
		h, err := c.Try(t.Context())
		require.NoError(t, err)
		stall(h.Term)
		err = c.Run(t.Context(), h, func(context.Context) error {
			t.Error("work has begun")
			return nil
		})
		require.ErrorIs(t, err, lease.ErrDeadline)
	})
}

func TestExpiredTermIsNotExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := stalled()
		term.extend(term.clock.Now()) // the answer to a renewal was waiting for the process to wake
		assert.Zero(t, term.Remaining(), "a successor may have begun")
		assert.ErrorIs(t, term.conclude(), lease.ErrDeadline)
	})
}
