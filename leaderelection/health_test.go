package leaderelection_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

var errSick = errors.New("the queue is stuck")

// healthy sets Healthy.
func healthy(f func(context.Context) error) func(*leaderelection.Config) {
	return func(c *leaderelection.Config) { c.Healthy = f }
}

func TestUnhealthyWorkLosesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		var sick atomic.Bool
		r := newReplica(t, a, "a", healthy(func(context.Context) error {
			if sick.Load() {
				return errSick
			}
			return nil
		}))
		other := newReplica(t, a, "b", nil)
		r.start(t)
		other.start(t)
		time.Sleep(10 * interval3)
		synctest.Wait()
		renewed := time.Now()
		r.counted()
		sick.Store(true)
		time.Sleep(usable)
		synctest.Wait()
		assert.Zero(t, r.counted()["update"], "no renewal is sent")
		assert.Equal(t, usable, r.last(t).end.Sub(renewed), "the term ends as if the renewals had been missed")
		require.Len(t, r.losses(), 1)
		for _, want := range []error{leaderelection.ErrLost, leaderelection.ErrUnhealthy, errSick} {
			assert.ErrorIs(t, r.losses()[0], want)
		}
		assert.ErrorContains(t, r.losses()[0], "not renewed in time: the work is not healthy: the queue is stuck")
		assert.Equal(t, 1, r.logs.FilterMessageSnippet("not renewing").Len(), "said once")
		time.Sleep(duration - usable)
		synctest.Wait()
		assert.True(t, other.IsLeader())
		require.NoError(t, other.stop())
		require.NoError(t, r.stop())
	})
}

func TestWorkThatRecoversInTimeKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sick atomic.Bool
		r := newReplica(t, newAPI(), "a", healthy(func(context.Context) error {
			if sick.Load() {
				return errSick
			}
			return nil
		}))
		r.start(t)
		sick.Store(true)
		time.Sleep(usable - interval3/2 - time.Millisecond) // the last pause is at most half an interval
		sick.Store(false)
		time.Sleep(interval3)
		synctest.Wait()
		assert.True(t, r.IsLeader())
		assert.Empty(t, r.losses())
		assert.Equal(t, 1, r.logs.FilterMessageSnippet("healthy again").Len())

		r.set(&r.refuse, down)
		time.Sleep(usable)
		synctest.Wait()
		require.Len(t, r.losses(), 1)
		assert.NotErrorIs(t, r.losses()[0], leaderelection.ErrUnhealthy, "an old story")
		require.NoError(t, r.stop())
	})
}

func TestHealthyIsAskedBeforeRenewalsOfRunningWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		other := newReplica(t, a, "b", nil)
		other.start(t)
		var asked atomic.Int32
		var ending atomic.Bool
		r := newReplica(t, a, "a", healthy(func(ctx context.Context) error {
			asked.Add(1)
			term, ok := leaderelection.TermFrom(ctx)
			assert.True(t, ok, "the context is derived from that of the lead function")
			assert.Equal(t, "a", term.Identity)
			if ending.Load() {
				return errSick
			}
			return nil
		}))
		r.drain = time.Minute
		r.start(t)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Zero(t, asked.Load(), "not while a candidate")
		require.NoError(t, other.stop())
		synctest.Wait()
		require.True(t, r.IsLeader())
		assert.Zero(t, asked.Load(), "not before the lead function is called")
		time.Sleep(10 * interval3)
		synctest.Wait()
		assert.EqualValues(t, 10, asked.Load(), "once per renewal")

		ending.Store(true)
		require.NoError(t, r.stop())
		assert.EqualValues(t, 10, asked.Load(), "not while work stops or the Lease is released")
		assert.Empty(t, r.losses())
		assert.Empty(t, *a.lease(t).Spec.HolderIdentity)
	})
}

func TestHealthyThatHangs(t *testing.T) {
	for _, c := range []struct {
		name  string
		hang  func(ctx context.Context, freed <-chan struct{}) error
		calls int32 // in two terms
		want  string
	}{
		{"deaf to its context", func(_ context.Context, freed <-chan struct{}) error {
			<-freed
			return nil
		}, 1, "an earlier call has not returned"},
		{"until its context ends", func(ctx context.Context, _ <-chan struct{}) error {
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
			return ctx.Err()
		}, 10, "no answer within "},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				freed := make(chan struct{})
				var calls, running, most atomic.Int32
				r := newReplica(t, newAPI(), "a", healthy(func(ctx context.Context) error {
					calls.Add(1)
					most.Store(max(most.Load(), running.Add(1)))
					defer running.Add(-1)
					select {
					case <-freed:
						return nil
					default:
					}
					return c.hang(ctx, freed)
				}))
				r.start(t)
				time.Sleep(usable)
				synctest.Wait()
				require.Len(t, r.losses(), 1, "the deadline does not wait for it")
				assert.Equal(t, usable, r.last(t).end.Sub(r.last(t).start))
				assert.ErrorIs(t, r.losses()[0], leaderelection.ErrUnhealthy)
				assert.ErrorContains(t, r.losses()[0], c.want)
				time.Sleep(duration - usable + usable)
				synctest.Wait()
				require.Len(t, r.losses(), 2, "nor does that of the next term")
				assert.ErrorIs(t, r.losses()[1], leaderelection.ErrUnhealthy)
				assert.LessOrEqual(t, calls.Load(), c.calls)
				assert.EqualValues(t, 1, most.Load(), "one call at a time")

				close(freed)
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.True(t, r.IsLeader(), "healthy again")
				assert.Len(t, r.losses(), 2)
				require.NoError(t, r.stop())
			})
		})
	}
}

func TestLateAnswerOfHealthyIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newAPI(), "a", healthy(func(context.Context) error {
			time.Sleep(2 * time.Second) // longer than half an interval
			return nil
		}))
		r.start(t)
		time.Sleep(usable)
		synctest.Wait()
		assert.Len(t, r.losses(), 1)
		require.NoError(t, r.stop())
		time.Sleep(2 * time.Second)
	})
}

func TestHealthyDoesNotHoldUpTheEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(r *replica, done chan<- struct{})
	}{
		{"ctx", func(r *replica, _ chan<- struct{}) { r.cancel() }},
		{"work", func(_ *replica, done chan<- struct{}) { close(done) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI()
				asked, done := make(chan struct{}), make(chan struct{})
				var told error
				r := newReplica(t, a, "a", healthy(func(ctx context.Context) error {
					close(asked)
					<-ctx.Done()
					told = context.Cause(ctx)
					return ctx.Err()
				}))
				var ctx context.Context
				ctx, r.cancel = context.WithCancel(t.Context())
				go func() {
					r.result <- r.Run(ctx, func(ctx context.Context) error {
						select {
						case <-ctx.Done():
						case <-done:
						}
						return nil
					})
				}()
				<-asked
				begin := time.Now()
				c.end(r, done)
				require.NoError(t, <-r.result)
				synctest.Wait()
				assert.Zero(t, time.Since(begin))
				assert.Equal(t, context.Canceled, told)
				assert.Empty(t, *a.lease(t).Spec.HolderIdentity, "released")
				assert.Zero(t, r.logs.FilterMessageSnippet("not renewing").Len(),
					"its context has ended, so what it says is no news")
				r.cancel()
			})
		})
	}
}

func TestHealthyThatDoesNotReturnNormallyIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newAPI(), "a", healthy(func(context.Context) error {
			runtime.Goexit()
			return nil
		}))
		r.start(t)
		time.Sleep(usable)
		synctest.Wait()
		assert.Len(t, r.losses(), 1)
		require.NoError(t, r.stop())
	})
}

func TestSingleRenewalAsksToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sick atomic.Bool
		sick.Store(true)
		r := newReplica(t, newAPI(), "a", healthy(func(ctx context.Context) error {
			if sick.Load() {
				<-ctx.Done()
				return errSick
			}
			return nil
		}))
		_, err := r.TryAcquire(t.Context())
		require.NoError(t, err)
		time.Sleep(usable - time.Second)
		assert.ErrorIs(t, r.Renew(t.Context()), leaderelection.ErrUnhealthy)
		assert.Positive(t, r.Remaining(), "so little time is left that it was given less")
		sick.Store(false)
		synctest.Wait() // or the first call may not have returned yet
		assert.NoError(t, r.Renew(t.Context()))
		assert.Equal(t, usable, r.Remaining())
		assert.NoError(t, r.Release(t.Context()))
	})
}
