package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

func TestWatchLastsLongerThanItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened context.Context
		events := watch.NewFake()
		w, err := Watch(t.Context(), clock.System(), time.Second,
			func(ctx context.Context) (watch.Interface, error) { opened = ctx; return events, nil })
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, opened.Err())
		w.Stop()
		require.Error(t, opened.Err(), "its context is released")
		assert.True(t, events.IsStopped())
	})
}

func TestWatchThatDoesNotOpen(t *testing.T) {
	refused := errors.New("refused")
	late := watch.NewFake()
	for name, c := range map[string]struct {
		open func(context.Context) (watch.Interface, error)
		want error
		took time.Duration
	}{
		"refused": {func(context.Context) (watch.Interface, error) { return nil, refused }, refused, 0},
		"no answer": {
			func(ctx context.Context) (watch.Interface, error) { <-ctx.Done(); return nil, ctx.Err() },
			context.DeadlineExceeded, time.Second,
		},
		"an answer too late": {
			func(ctx context.Context) (watch.Interface, error) { <-ctx.Done(); return late, nil },
			context.DeadlineExceeded, time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				_, err := Watch(t.Context(), clock.System(), time.Second, c.open)
				require.ErrorIs(t, err, c.want)
				assert.Equal(t, c.took, time.Since(begin))
			})
		})
	}
	assert.True(t, late.IsStopped())
}

// A timer that does not stop has not cancelled anything: the answer counts.
func TestWatchKeepsTheAnswer(t *testing.T) {
	refused := errors.New("refused")
	_, err := Watch(t.Context(), unstoppable{clock.System()}, time.Hour,
		func(context.Context) (watch.Interface, error) { return nil, refused })
	require.ErrorIs(t, err, refused)
}

type unstoppable struct{ clock.Clock }

func (c unstoppable) AfterFunc(d time.Duration, f func()) clock.Timer {
	return noStop{c.Clock.AfterFunc(d, f)}
}

type noStop struct{ clock.Timer }

func (t noStop) Stop() bool {
	t.Timer.Stop()
	return false
}

func TestWatchOfACallerThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := Watch(ctx, clock.System(), time.Second, func(ctx context.Context) (watch.Interface, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotContains(t, err.Error(), "no answer")
	})
}
