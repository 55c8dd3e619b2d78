package sharder

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// A candidate explains to several at once, while it follows the Leases of the shards.
func TestACandidateExplainsWhileItFollows(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.replica("a")
		time.Sleep(2 * time.Second)
		kube, meta := w.clients(w.server.Client("b"))
		lost := func(error) {}
		lease, err := shardlease.New(kube,
			shardlease.Config{Namespace: testNamespace, Ring: testRing, Identity: "b", OnLost: lost})
		require.NoError(t, err)
		elector, err := leaderelection.New(kube,
			leaderelection.Config{Namespace: testNamespace, Name: "election", Identity: "b", OnLost: lost})
		require.NoError(t, err)
		s, err := New(kube, meta, ringtest.TestMapper(), w.config())
		require.NoError(t, err)
		w.begin(func(ctx context.Context) {
			_ = Replica{Lease: lease, Elector: elector, Sharder: s}.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
		})
		time.Sleep(5 * time.Second)
		w.create(1, "o")
		time.Sleep(5 * time.Second)
		o := api.ObjectRef{GVR: ringtest.ConfigMaps, Namespace: "default", Name: "o-000"}
		var asking sync.WaitGroup
		for range 4 {
			asking.Go(func() {
				for range 50 {
					x, err := s.Explain(t.Context(), o)
					assert.NoError(t, err)
					assert.NotEmpty(t, x.Owner)
					time.Sleep(77 * time.Millisecond)
				}
			})
		}
		asking.Wait()
	})
}
