package leaderelection_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// annotate writes an annotation of the Lease at every interval, as some operator may do, until the
// test ends.
func annotate(t *testing.T, leases kubernetes.Interface, every time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/seen":"%d"}}}`, i)
			_, _ = leases.CoordinationV1().Leases("ns").Patch(ctx, "l", types.MergePatchType, []byte(patch),
				metav1.PatchOptions{})
			select {
			case <-ctx.Done():
			case <-time.After(every):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// TestMetadataWritersDoNotKeepADeadLeader writes metadata more often than a lease lasts.
func TestMetadataWritersDoNotKeepADeadLeader(t *testing.T) {
	for _, every := range []time.Duration{100 * time.Millisecond, time.Second, 4 * time.Second, 14 * time.Second} {
		for _, watches := range []bool{true, false} {
			t.Run(fmt.Sprintf("every %v, watching %v", every, watches), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCandidate(t, nil)
					if !watches {
						c.set(refuseWatches)
					}
					dead, err := leaderelection.New(c.others,
						leaderelection.Config{Namespace: "ns", Name: "l", OnLost: func(error) {}})
					require.NoError(t, err)
					_, err = dead.TryAcquire(t.Context())
					require.NoError(t, err)
					annotate(t, c.others, every)
					c.start(t)
					took, leads := c.after(30 * time.Minute)
					require.True(t, leads)
					assert.LessOrEqual(t, took, duration+interval3)
					assert.GreaterOrEqual(t, took, duration)
				})
			})
		}
	}
}

// TestMetadataWritersDoNotEndATerm writes metadata so often that most renewals conflict.
func TestMetadataWritersDoNotEndATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(t, nil)
		connection := c.base.(*apisim.Client)
		connection.Inject(apisim.Faults{Latency: 10 * time.Millisecond})
		c.start(t)
		_, leads := c.after(time.Second)
		require.True(t, leads)
		annotate(t, c.others, 30*time.Millisecond)
		time.Sleep(time.Minute) // 20 renewals
		assert.True(t, c.IsLeader())
		assert.Empty(t, c.lost)
		begin := time.Now()
		c.stop(t)
		assert.Less(t, time.Since(begin), time.Second, "the release conflicts as well")
		assert.Empty(t, ptr.Deref(c.lease(t).Spec.HolderIdentity, ""))
	})
}

func TestAddressIsNotThatOfALeaderBeforeAnotherElectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(t, nil)
		ours, err := leaderelection.New(c.others, leaderelection.Config{
			Namespace: "ns", Name: "l", Address: "10.0.0.1:80", OnLost: func(error) {},
		})
		require.NoError(t, err)
		_, err = ours.TryAcquire(t.Context())
		require.NoError(t, err)
		c.start(t)
		address, ok := c.LeaderAddress()
		require.True(t, ok)
		require.Equal(t, "10.0.0.1:80", address)

		other := resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "ns", Name: "l"}, Client: c.others.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "client-go"},
		}
		_, _, err = other.Get(t.Context())
		require.NoError(t, err)
		now := metav1.Now()
		require.NoError(t, other.Update(t.Context(), resourcelock.LeaderElectionRecord{
			HolderIdentity: "client-go", LeaseDurationSeconds: 15, AcquireTime: now, RenewTime: now,
			LeaderTransitions: 1,
		}))
		synctest.Wait()
		leader, _ := c.Leader()
		require.Equal(t, "client-go", leader)
		require.Contains(t, c.lease(t).Annotations, leaderelection.AddressAnnotation,
			"client-go leaves annotations alone")
		_, ok = c.LeaderAddress()
		assert.False(t, ok)
	})
}
