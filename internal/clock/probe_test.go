package clock_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

var errUnwell = errors.New("unwell")

func TestAnswerIsReturned(t *testing.T) {
	for _, answer := range []error{nil, errUnwell} {
		var p clock.Probe
		ask := func(context.Context) error { return answer }
		for range 2 {
			assert.Equal(t, answer, p.Ask(t.Context(), clock.System(), time.Minute, ask))
		}
	}
}

func TestCallThatHangsIsOneGoroutineAndItsLateAnswerIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		release := make(chan struct{})
		var p clock.Probe
		ask := func(context.Context) error {
			calls.Add(1)
			<-release
			return nil
		}
		begin := time.Now()
		err := p.Ask(t.Context(), clock.System(), time.Second, ask)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "no answer within 1s")
		for range 10 {
			assert.Equal(t, clock.ErrHangs, p.Ask(t.Context(), clock.System(), time.Second, ask))
		}
		assert.Equal(t, time.Second, time.Since(begin), "only the first was waited for")
		assert.EqualValues(t, 1, calls.Load())

		release <- struct{}{}
		synctest.Wait()
		assert.ErrorIs(t, p.Ask(t.Context(), clock.System(), time.Second, ask), context.DeadlineExceeded)
		assert.EqualValues(t, 2, calls.Load(), "that it has returned well is no answer to the next question")
		close(release)
		synctest.Wait()
		assert.NoError(t, p.Ask(t.Context(), clock.System(), time.Second, ask))
	})
}

func TestEndOfTheContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		var p clock.Probe
		ask := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		begin := time.Now()
		assert.ErrorIs(t, p.Ask(ctx, clock.System(), time.Hour, ask), context.Canceled)
		assert.Equal(t, time.Second, time.Since(begin))
	})
}

func TestCallThatEndsItsGoroutineIsNoGoodAnswer(t *testing.T) {
	var p clock.Probe
	ask := func(context.Context) error {
		runtime.Goexit()
		return nil
	}
	assert.ErrorContains(t, p.Ask(t.Context(), clock.System(), time.Minute, ask), "did not return normally")
}
