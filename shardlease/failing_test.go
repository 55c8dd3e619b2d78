package shardlease_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

func TestCheckFailsWhenAShardsRequestsHaveFailedForTooLong(t *testing.T) {
	inCluster(t, func(c *cluster) {
		var lasted time.Duration
		s := newShard(c, func(config *shardlease.Config) {
			config.MaxFailing = time.Minute
			config.Hooks.OnFailing = func(d time.Duration, _ error) { lasted = d }
		})
		s.client.Sever()
		s.start(c)
		time.Sleep(time.Minute - time.Second)
		require.NoError(t, s.Check(nil))
		time.Sleep(4 * interval) // an attempt without an answer takes that long
		assert.ErrorContains(t, s.Check(nil), "shardlease: lease ns/a: requests have failed for 1m")
		assert.InDelta(t, time.Minute, lasted, float64(4*interval))
		assert.NoError(t, s.stop())
		synctest.Wait()
		assert.NoError(t, s.Check(nil), "Run has returned")
		assert.Zero(t, lasted)
	})
}

// rejecting is a client whose credentials the API server does not accept.
func rejecting(s *shard) *kubernetes.Clientset {
	way := s.client.Config()
	way.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			return deny(r.Method, http.StatusUnauthorized, `,"reason":"Unauthorized","message":"Unauthorized"`)(next).
				RoundTrip(r)
		})
	}
	return kubernetes.NewForConfigOrDie(way)
}

func TestExpiredCredentialsEndAShardThatWaits(t *testing.T) {
	t.Run("for its lease", func(t *testing.T) {
		inCluster(t, func(c *cluster) {
			s, config := makeShard(c, nil)
			var err error
			s.Lease, err = shardlease.New(rejecting(s), config)
			require.NoError(t, err)
			s.start(c)
			time.Sleep(duration + 2*interval)
			select {
			case err := <-s.result:
				assert.ErrorContains(t, err, "the API server does not accept the credentials of this process")
			default:
				require.Fail(t, "Run goes on")
			}
		})
	})
	t.Run("for a name", func(t *testing.T) {
		inCluster(t, func(c *cluster) {
			s, config := makeShard(c, func(config *shardlease.Config) { config.Identity = "" })
			begin := time.Now()
			_, err := shardlease.ClaimOrdinal(c.Context(), rejecting(s), config)
			require.True(t, apierrors.IsUnauthorized(err), "%v", err)
			assert.GreaterOrEqual(t, time.Since(begin), duration)
			assert.Less(t, time.Since(begin), duration+2*interval)
		})
	})
}
