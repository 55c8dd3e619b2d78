package leasehold

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// unanswered are requests that get no answer before their context ends.
type unanswered struct{}

func (unanswered) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// Reads overtake each other. One that was sent before a newer version became known is not learned, and its
// question is asked again.
func TestAnswersOfOvertakenReadsAreNotLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubernetes.NewForConfigOrDie(&rest.Config{Transport: unanswered{}, QPS: -1})
		store := NewStore(client.CoordinationV1(), Config{Lease: name, Clock: clock.System(), Log: zap.NewNop()}, 0)
		first, second := version(taken("a", time.Second), "1", nil), version(taken("a", time.Second), "2", nil)
		var learned []string
		w := store.newSwap(t.Context(), time.Minute, time.Second, false, change{
			next: func() (*coordinationv1.Lease, lease.Record) { return second.Lease().DeepCopy(), first },
			learn: func(r lease.Record, _ clock.Reading, _ bool) (outcome, error) {
				learned = append(learned, r.Lease().ResourceVersion)
				return changed, nil
			},
		})
		defer w.end()
		w.again()
		w.again()
		answer := reply{verb: "get", writes: w.writes}
		require.Equal(t, 2, w.reads)

		answer.lease = second.Lease() // the second read
		done, err := w.receive(answer)
		require.NoError(t, err)
		require.False(t, done)
		require.Equal(t, 2, w.writes, "in place of the newer version")

		answer.lease = first.Lease() // the first one
		_, err = w.receive(answer)
		require.NoError(t, err)
		assert.Equal(t, []string{"2"}, learned)
		assert.Equal(t, 1, w.reads, "what that one was to find out")
	})
}
