package leaderelection_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// throttling answers every request with 429, and asks to wait.
func throttling(seconds string, asked *[]time.Time) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if r.URL.Query().Get("watch") != "" {
			return nil
		}
		*asked = append(*asked, time.Now())
		resp := refusal(r, apierrors.NewTooManyRequestsError("slow down"))
		resp.Header.Set("Retry-After", seconds)
		return resp
	}
}

// The API server is overloaded for most of a term, and asks to wait for longer than the term lasts.
func TestALeaderThatIsThrottledIsBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(t, nil)
		c.start(t)
		_, leads := c.after(time.Second)
		require.True(t, leads)
		time.Sleep(interval3 / 2) // the deadline is now usable - interval3/2 away
		var asked []time.Time
		c.set(throttling("30", &asked))
		time.Sleep(usable - interval3/2 - 2*time.Second)
		c.set(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Empty(t, c.lost)
		assert.True(t, c.IsLeader())
		assert.Less(t, len(asked), 30, "it does not hammer")
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
		var asked []time.Time
		c.set(throttling("30", &asked))
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
		var asked []time.Time
		c.set(throttling("1", &asked))
		time.Sleep(interval3 + interval3 - time.Millisecond) // the first renewal, until its time is over
		c.set(nil)
		require.Len(t, asked, 3)
		for i := range asked[1:] {
			assert.GreaterOrEqual(t, asked[i+1].Sub(asked[i]), time.Second)
		}
		time.Sleep(interval3)
		assert.True(t, c.IsLeader())
		c.stop(t)
	})
}
