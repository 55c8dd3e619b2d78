package shard

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const outside = "an object of the ring was written outside of Shard.Do: one of the reconcilers is not wrapped, or " +
	"does not pass its context to the write"

// Of two controllers of a resource one is not wrapped. The other one asks the shard, so only the writes
// show it: of roots and of children, each said once. What is written in work is not, nor what is not of
// the ring, nor what the shard writes, nor new objects.
func TestAWriteOutsideOfWorkIsWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		core, logs := observer.New(zap.WarnLevel)
		assert.NoError(t, w.replica(Config{Resources: families(), Logger: zap.New(core)}).run(func(r *replica) {
			client := r.client()
			r.create("x")
			root := r.assign("x")
			write := func(ctx context.Context) error {
				m, err := client.CoreV1().ConfigMaps("default").Get(ctx, "x", metav1.GetOptions{})
				if err != nil {
					return err
				}
				_, err = client.CoreV1().ConfigMaps("default").Update(ctx, m, metav1.UpdateOptions{})
				return err
			}
			require.NoError(t, r.shard.Do(r.ctx, root, write))
			child, err := client.CoreV1().Pods("default").Create(r.ctx, podOf(root, "p"), metav1.CreateOptions{})
			require.NoError(t, err)
			_, err = client.CoordinationV1().Leases("default").Create(r.ctx,
				&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "of-no-ring"}}, metav1.CreateOptions{})
			require.NoError(t, err)
			require.NoError(t,
				client.CoordinationV1().Leases("default").Delete(r.ctx, "of-no-ring", metav1.DeleteOptions{}))
			r.set("x", "a", true, nil)
			synctest.Wait()
			r.acknowledged("x")
			assert.Empty(t, logs.All())

			for range 2 {
				require.NoError(t, write(r.ctx))
			}
			require.Len(t, logs.FilterMessage(outside).All(), 1)
			assert.Equal(t, "configmaps", logs.All()[0].ContextMap()["resource"])
			require.NoError(t, client.CoreV1().Pods("default").Delete(r.ctx, child.Name, metav1.DeleteOptions{}))
			require.Len(t, logs.FilterMessage(outside).All(), 2)
			assert.Equal(t, "pods", logs.All()[1].ContextMap()["resource"])
		}))
	})
}
