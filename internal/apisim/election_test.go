package apisim_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

func TestElectorsFailOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		var mu sync.Mutex
		var began []string
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		connections := map[string]*apisim.Client{}
		for _, id := range []string{"a", "b", "c"} {
			connections[id] = server.Client(id)
			connections[id].Inject(apisim.Faults{Latency: 20 * time.Millisecond, WatchLag: 50 * time.Millisecond})
			client, err := kubernetes.NewForConfig(connections[id].Config())
			require.NoError(t, err)
			elector, err := leaderelection.New(client, leaderelection.Config{
				Namespace: "ns", Name: "l", Identity: id, OnLost: func(error) {},
			})
			require.NoError(t, err)
			running.Go(func() {
				assert.NoError(t, elector.Run(ctx, func(ctx context.Context) error {
					mu.Lock()
					began = append(began, id)
					mu.Unlock()
					<-ctx.Done()
					return nil
				}))
			})
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		connections["a"].Inject(apisim.Faults{LoseRequest: apisim.Always})
		time.Sleep(time.Hour)
		mu.Lock()
		assert.Len(t, began, 2)
		assert.Equal(t, "a", began[0])
		mu.Unlock()
		cancel()
		running.Wait()
	})
}
