package endpoints_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

// stubborn is a Ready that ignores its context, and can be made to hang.
type stubborn struct {
	mu     sync.Mutex
	answer error
	hang   chan struct{} // nil: it returns at once
	calls  atomic.Int64
}

func (s *stubborn) ready(context.Context) error {
	s.calls.Add(1)
	s.mu.Lock()
	hang := s.hang
	s.mu.Unlock()
	if hang != nil {
		<-hang
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer
}

func (s *stubborn) setHanging() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang = make(chan struct{})
}

// giveBack lets all calls return.
func (s *stubborn) giveBack(answer error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.hang)
	s.hang, s.answer = nil, answer
}

// newStubborn is an instance with such a Ready.
func newStubborn(c *cluster, address string) (*instance, *stubborn) {
	c.Helper()
	s := &stubborn{}
	return newInstance(c, address, func(config *endpoints.Config) { config.Ready = s.ready }), s
}

// requireWithin fails unless what has begun ends in that time.
func requireWithin(c *cluster, limit time.Duration, result <-chan error) error {
	c.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(limit):
		require.FailNow(c, "it has not returned", "within %v", limit)
		return nil
	}
}

func TestReadyThatHangsIsNotReady(t *testing.T) {
	inBoth(t, func(c *cluster) {
		newInstance(c, "10.0.0.1", nil).start(c)
		i, ready := newStubborn(c, "10.0.0.2")
		i.start(c)
		time.Sleep(interval)
		c.requirePublished("10.0.0.1", "10.0.0.2")

		ready.setHanging()
		before := ready.calls.Load()
		defer ready.giveBack(nil)
		time.Sleep(2 * interval)
		c.requirePublished("10.0.0.1")
		assert.Len(c, c.keys(), 1, "nor is it registered")
		time.Sleep(expiry)
		assert.Equal(c, before+1, ready.calls.Load(), "it is not asked again while it hangs")
		assert.Equal(c, 2, i.logs.FilterMessage("withdrawing this instance").Len(), "once with each cause")
		round := i.lastRound()
		assert.NoError(c, round.Err, "the round itself goes well")
	})
}

func TestReadyThatReturnsAfterAllIsAskedAgain(t *testing.T) {
	for name, answer := range map[string]error{"ready": nil, "not ready": errUnwell} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(c *cluster) {
				i, ready := newStubborn(c, "10.0.0.1")
				ready.setHanging()
				i.start(c)
				time.Sleep(2 * interval)
				c.requirePublished()
				ready.giveBack(answer)
				time.Sleep(2 * interval)
				if answer == nil {
					c.requirePublished("10.0.0.1")
				} else {
					c.requirePublished()
				}
				assert.Greater(c, ready.calls.Load(), int64(1))
			})
		})
	}
}

func TestRunEndsWhileReadyHangs(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i, ready := newStubborn(c, "10.0.0.1")
		i.start(c)
		c.requirePublished("10.0.0.1")
		ready.setHanging()
		defer ready.giveBack(nil)
		time.Sleep(interval + interval/10) // a round has begun
		require.EqualValues(c, 2, ready.calls.Load())
		i.cancel()
		i.ran = true
		require.NoError(c, requireWithin(c, interval, i.result))
		c.requirePublished()
		assert.Empty(c, c.keys())
	})
}

func TestReconcileOnceAndWithdrawEndWhileReadyHangs(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i, ready := newStubborn(c, "10.0.0.1")
		i.once(c)
		ready.setHanging()
		defer ready.giveBack(nil)
		result := make(chan error, 1)
		for _, wait := range []time.Duration{interval / 4, 0} { // the second one knows that it hangs
			begin := time.Now()
			go func() { result <- i.ReconcileOnce(c.Context()) }()
			err := requireWithin(c, interval, result)
			require.ErrorIs(c, err, endpoints.ErrNotReady)
			assert.Equal(c, wait, time.Since(begin))
			c.requirePublished()
		}
		go func() { result <- i.Withdraw(c.Context()) }()
		require.NoError(c, requireWithin(c, time.Second, result))

		ctx, cancel := context.WithTimeout(c.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		other, hanging := newStubborn(c, "10.0.0.2")
		hanging.setHanging()
		defer hanging.giveBack(nil)
		go func() { result <- other.ReconcileOnce(ctx) }()
		require.ErrorIs(c, requireWithin(c, interval, result), endpoints.ErrNotReady)
		assert.Equal(c, time.Second, time.Since(begin), "it ends with its context")
		synctest.Wait()
	})
}
