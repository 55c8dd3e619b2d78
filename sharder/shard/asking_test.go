package shard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

func (w *cluster) idle(shard string) bool {
	w.t.Helper()
	l, err := w.admin.CoordinationV1().Leases("default").Get(w.t.Context(), shard, metav1.GetOptions{})
	require.NoError(w.t, err)
	return shardlease.Idle(l)
}

// A shard is idle until an informer of one of its resources runs. The Lease says so at once.
func TestAShardWithoutAnInformerIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		r := w.replica(Config{})
		ctx, cancel := context.WithCancel(t.Context())
		assert.NoError(t, r.lease.Run(ctx, func(ctx context.Context) error {
			defer r.running.Wait()
			defer cancel()
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			r.ctx = ctx
			assert.True(t, w.idle("a"))
			time.Sleep(time.Hour)
			assert.True(t, w.idle("a"), "renewals say the same")
			r.start()
			synctest.Wait()
			assert.False(t, w.idle("a"))
			r.stop()
			time.Sleep(time.Hour)
			assert.False(t, w.idle("a"), "its objects are not taken away while another informer may begin")
			return nil
		}))
	})
}
