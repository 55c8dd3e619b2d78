package leaderelection_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

func TestCheckOfCandidatesAndLeadersInGoodStanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r, candidate := newReplica(t, a, "a", nil), newReplica(t, a, "b", nil)
		assert.NoError(t, r.Check(nil), "before Run")
		r.start(t)
		candidate.start(t)
		time.Sleep(time.Hour)
		assert.NoError(t, r.Check(nil))
		candidate.set(&candidate.refuse, down)
		r.drain = time.Minute
		r.set(&r.lose, func(string) error {
			time.Sleep(time.Second) // a slow release
			return nil
		})
		ended := make(chan error)
		go func() { ended <- r.stop() }()
		synctest.Wait()
		for range 600 {
			r.counted()
			candidate.counted()
			assert.NoError(t, r.Check(nil), "at %v", time.Now())
			assert.NoError(t, candidate.Check(nil), "a candidate need not reach the API server")
			assert.Empty(t, r.counted(), "no requests")
			assert.Empty(t, candidate.counted(), "no requests")
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
		}
		require.NoError(t, <-ended)
		require.NoError(t, candidate.stop())
	})
}

func TestCheckOfLostTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newReplica(t, newAPI(), "a", func(c *leaderelection.Config) {
			next := c.OnLost
			c.OnLost = func(err error) {
				next(err)
				<-release
			}
		})
		r.drain = time.Minute
		r.start(t)
		r.set(&r.refuse, down)
		time.Sleep(usable - time.Millisecond)
		assert.NoError(t, r.Check(nil), "until the deadline it may yet renew")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		err := r.Check(nil)
		assert.ErrorIs(t, err, leaderelection.ErrLost)
		assert.ErrorContains(t, err, "leaderelection: work continues after the end of its term: lease ns/l lost by")
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		assert.Error(t, r.Check(nil), "work has returned, but OnLost has not: no candidate contends")
		close(release)
		synctest.Wait()
		assert.NoError(t, r.Check(nil), "a candidate again")
		require.NoError(t, r.stop())
	})
}

func TestCheckOfALeaderThatHasNotNoticedItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(t, func(c *leaderelection.Config) { c.Clock = deaf{clock.System()} })
		c.start(t)
		_, leads := c.after(time.Minute)
		require.True(t, leads)
		c.set(func(r *http.Request) *http.Response {
			if r.Method == http.MethodPut {
				time.Sleep(40 * time.Second) // a request that no timer ends
			}
			return page(r, http.StatusInternalServerError, "text/plain", "")
		})
		time.Sleep(usable + interval3)
		synctest.Wait()
		require.Empty(t, c.lost)
		assert.ErrorContains(t, c.Check(nil), "not renewed in time")
		c.set(nil)
		time.Sleep(2 * time.Minute)
	})
}

func TestCheckOfSingleSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newAPI(), "a", nil)
		_, err := r.TryAcquire(t.Context())
		require.NoError(t, err)
		time.Sleep(usable)
		synctest.Wait()
		require.Len(t, r.losses(), 1)
		assert.NoError(t, r.Check(nil), "no lead function that could go on")
	})
}
