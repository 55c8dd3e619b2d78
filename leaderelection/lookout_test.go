package leaderelection_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// whileLeading runs a test with a leader on a server whose connection may have faults.
func whileLeading(t *testing.T,
	test func(t *testing.T, leases kubernetes.Interface, connection *apisim.Client, e *leaderelection.Elector,
		ended <-chan error),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		connection := server.Client("leader")
		own, err := kubernetes.NewForConfig(connection.Config())
		require.NoError(t, err)
		others, err := kubernetes.NewForConfig(server.Client("others").Config())
		require.NoError(t, err)
		elector, err := leaderelection.New(own,
			leaderelection.Config{Namespace: "ns", Name: "l", OnLost: func(error) {}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		done := make(chan error)
		go func() {
			done <- elector.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return ctx.Err()
			})
		}()
		synctest.Wait()
		test(t, others, connection, elector, ended)
		synctest.Wait()
		cancel()
		assert.NoError(t, <-done)
	})
}

func steal(t *testing.T, leases kubernetes.Interface) {
	t.Helper()
	_, err := leases.CoordinationV1().Leases("ns").Patch(t.Context(), "l", types.MergePatchType,
		[]byte(`{"spec":{"holderIdentity":"thief"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
}

func TestLossIsSeenWhileARenewalHangs(t *testing.T) {
	whileLeading(t,
		func(t *testing.T, leases kubernetes.Interface, connection *apisim.Client, e *leaderelection.Elector,
			ended <-chan error,
		) {
			connection.Inject(apisim.Faults{LoseRequest: func(r *http.Request) bool {
				return r.Method == http.MethodPut
			}})
			time.Sleep(interval3 + time.Second)
			begin := time.Now()
			steal(t, leases)
			require.ErrorIs(t, <-ended, leaderelection.ErrLost)
			assert.Zero(t, time.Since(begin), "neither the renewal nor its time-out is waited for")
			assert.False(t, e.IsLeader())
			connection.Inject(apisim.Faults{})
			time.Sleep(interval3) // Run returns from the renewal
		})
}

func TestDeletionIsSeenAtOnce(t *testing.T) {
	whileLeading(t,
		func(t *testing.T, leases kubernetes.Interface, _ *apisim.Client, _ *leaderelection.Elector,
			ended <-chan error,
		) {
			time.Sleep(time.Second)
			begin := time.Now()
			require.NoError(t, leases.CoordinationV1().Leases("ns").Delete(t.Context(), "l", metav1.DeleteOptions{}))
			require.ErrorContains(t, <-ended, "the Lease was deleted")
			assert.Zero(t, time.Since(begin))
		})
}

// TestLateEventsProveNothing lets a watch tell of its own renewals a minute late: of versions that
// the leader has long replaced.
func TestLateEventsProveNothing(t *testing.T) {
	whileLeading(t,
		func(t *testing.T, _ kubernetes.Interface, connection *apisim.Client, e *leaderelection.Elector,
			ended <-chan error,
		) {
			connection.Inject(apisim.Faults{WatchLag: time.Minute})
			time.Sleep(10 * time.Minute)
			assert.True(t, e.IsLeader())
			assert.Empty(t, ended)
		})
}
