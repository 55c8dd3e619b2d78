package leasehold

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// killer records its deadlines, as the time from now.
type killer struct {
	at      []time.Duration
	stopped atomic.Int32
	err     error
}

func (k *killer) SetAt(boot time.Duration) error {
	k.at = append(k.at, boot-process.SinceBoot())
	return k.err
}

func (k *killer) Stop() error { k.stopped.Add(1); return nil }

func TestKillTimerFollowsTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system, k := clock.System(), &killer{}
		timing := lease.Timing{}.WithDefaults() // D - M/2 = 13.5 s
		config := Config{Timing: timing, Clock: system, KillTimer: k, OnLost: func(*lease.LostError) {}}
		term := newTerm(config, nil, system.Now())
		time.Sleep(2 * time.Second)
		sent := system.Now()
		time.Sleep(time.Second)
		term.extend(sent)
		require.Len(t, k.at, 2)
		assert.InDelta(t, 13.5, k.at[0].Seconds(), 1, "from when the write was sent")
		assert.InDelta(t, 12.5, k.at[1].Seconds(), 1, "not from the answer")
		time.Sleep(timing.Duration)
		require.True(t, term.Lost())
		assert.Zero(t, k.stopped.Load(), "work may be running")
		term.extend(system.Now())
		assert.Len(t, k.at, 2, "a term that is lost does not come back")
		term.DisarmKillTimer()
		assert.EqualValues(t, 1, k.stopped.Load())
	})
}

func TestTermWithoutItsKillTimerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loss error
		system := clock.System()
		term := newTerm(Config{
			Timing: lease.Timing{}.WithDefaults(), Clock: system, KillTimer: &killer{err: errors.New("no")},
			OnLost: func(err *lease.LostError) { loss = err },
		}, nil, system.Now())
		assert.ErrorIs(t, loss, lease.ErrKillTimer)
		assert.False(t, term.begin(nil))
	})
}
