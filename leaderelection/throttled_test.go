package leaderelection_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// throttled are the requests that were answered with 429.
type throttled struct {
	mu sync.Mutex
	at []time.Time
}

// by asks the sender of every request to wait for some seconds.
func (q *throttled) by(seconds string) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if r.URL.Query().Get("watch") != "" {
			return nil
		}
		q.mu.Lock()
		q.at = append(q.at, time.Now())
		q.mu.Unlock()
		resp := refusal(r, apierrors.NewTooManyRequestsError("slow down"))
		resp.Header.Set("Retry-After", seconds)
		return resp
	}
}

func (q *throttled) times() []time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.at)
}

// The API server is overloaded for most of a term, and asks to wait for longer than the term lasts.
func TestALeaderThatIsThrottledIsBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(t, nil)
		c.start(t)
		_, leads := c.after(time.Second)
		require.True(t, leads)
		time.Sleep(interval3 / 2) // the deadline is now usable - interval3/2 away
		var asked throttled
		c.set(asked.by("30"))
		time.Sleep(usable - interval3/2 - 2*time.Second)
		c.set(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Empty(t, c.lost)
		assert.True(t, c.IsLeader())
		assert.Less(t, len(asked.times()), 30, "it does not hammer")
		c.stop(t)
	})
}

func TestALeaderThatIsThrottledLosesItsTermAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(t, nil)
		c.start(t)
		_, leads := c.after(time.Second)
		require.True(t, leads)
		begin := time.Now()
		var asked throttled
		c.set(asked.by("30"))
		assert.ErrorContains(t, <-c.lost, "slow down")
		assert.LessOrEqual(t, time.Since(begin), usable)
		c.set(nil)
		time.Sleep(2 * duration)
		c.stop(t)
	})
}

// What fits into a request is waited for, by client-go.
func TestALeaderWaitsAsLongAsItIsAskedToIfThatFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(t, nil)
		c.start(t)
		_, leads := c.after(time.Second)
		require.True(t, leads)
		var asked throttled
		c.set(asked.by("1"))
		time.Sleep(interval3 + interval3 - time.Millisecond) // the first renewal, until its time is over
		c.set(nil)
		at := asked.times()
		require.Len(t, at, 3)
		for i := range at[1:] {
			assert.GreaterOrEqual(t, at[i+1].Sub(at[i]), time.Second)
		}
		time.Sleep(interval3)
		assert.True(t, c.IsLeader())
		c.stop(t)
	})
}
