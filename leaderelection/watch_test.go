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

// A leader that has won at once says it, too, and not only a candidate that goes on to wait.
func TestALeaderWithoutTheRightToWatchSaysIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newAPI(), "a", nil)
		r.set(&r.refuse, forbid("watch"))
		r.start(t)
		require.True(t, r.IsLeader())
		said := func() int { return r.logs.FilterMessageSnippet("polling instead of watching").Len() }
		assert.Equal(t, 1, said(), "at once")
		time.Sleep(time.Hour)
		assert.Equal(t, 1, said(), "once")
		require.NoError(t, r.stop())
	})
}

func TestAWatchThatFailsIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		leader, candidate := newReplica(t, a, "a", nil), newReplica(t, a, "b", nil)
		badGateway := func(verb string) error {
			if verb != "watch" {
				return nil
			}
			return apierrors.NewGenericServerResponse(http.StatusBadGateway, verb, leases.GroupResource(), "l", "", 0,
				true)
		}
		for _, r := range []*replica{leader, candidate} {
			r.set(&r.refuse, badGateway)
			r.start(t)
		}
		time.Sleep(9 * time.Minute)
		for _, r := range []*replica{leader, candidate} {
			said := r.logs.FilterMessage("request failed, retrying").All()
			require.Len(t, said, 1)
			assert.Contains(t, said[0].ContextMap()["error"], "watch Lease ns/l")
			r.set(&r.refuse, nil)
		}
		time.Sleep(time.Minute)
		for _, r := range []*replica{leader, candidate} {
			assert.Equal(t, 1, r.logs.FilterMessage("request succeeds again").Len())
			require.NoError(t, r.stop())
		}
	})
}
