package shardlease_test

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

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// TestMetadataWritersDoNotKeepAShardFromItsLease restarts a shard that says nothing of its Pod,
// while somebody writes metadata of its Lease more often than the Lease lasts.
func TestMetadataWritersDoNotKeepAShardFromItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		shard := func(connection *apisim.Client) *shardlease.Lease {
			client, err := kubernetes.NewForConfig(connection.Config())
			require.NoError(t, err)
			l, err := shardlease.New(client,
				shardlease.Config{Namespace: "ns", Ring: "r", Identity: "s", OnLost: func(error) {}})
			require.NoError(t, err)
			return l
		}
		run := func(l *shardlease.Lease) (working <-chan struct{}, stop func()) {
			began, done := make(chan struct{}, 1), make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer close(done)
				_ = l.Run(ctx, func(ctx context.Context) error {
					began <- struct{}{}
					<-ctx.Done()
					return ctx.Err()
				})
			}()
			return began, func() { cancel(); <-done }
		}
		first := server.Client("first")
		working, stop := run(shard(first))
		<-working
		first.Sever() // as good as dead
		defer stop()

		others, err := kubernetes.NewForConfig(server.Client("others").Config())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		written := make(chan struct{})
		go func() {
			defer close(written)
			for i := 0; ctx.Err() == nil; i++ {
				patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/seen":"%d"}}}`, i)
				_, err := others.CoordinationV1().Leases("ns").Patch(ctx, "s", types.MergePatchType, []byte(patch),
					metav1.PatchOptions{})
				assert.True(t, err == nil || ctx.Err() != nil, "%v", err)
				time.Sleep(time.Second)
			}
		}()
		defer func() { cancel(); <-written }()

		begin := time.Now()
		working, stopSecond := run(shard(server.Client("second")))
		defer stopSecond()
		select {
		case <-working:
			assert.LessOrEqual(t, time.Since(begin), 18*time.Second, "D and a renew interval")
		case <-time.After(30 * time.Minute):
			t.Error("it does not get its lease")
		}
	})
}
