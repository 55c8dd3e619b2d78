package e2e

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	retry "k8s.io/client-go/tools/watch"
)

// Follow calls see with each change of objects from a version on until the test ends. It leaves no
// gap when the API server ends the watch, as it does if a client reads too slowly: if it cannot go
// on, the test fails.
func Follow(t testing.TB, version string, from cache.WatchFuncWithContext, see func(watch.Event)) {
	t.Helper()
	watcher, err := retry.NewRetryWatcherWithContext(context.WithoutCancel(t.Context()), version,
		&cache.ListWatch{WatchFuncWithContext: from})
	require.NoError(t, err)
	var following sync.WaitGroup
	stopped := make(chan struct{})
	following.Go(func() {
		for event := range watcher.ResultChan() {
			if assert.NotEqual(t, watch.Error, event.Type, "%v", event.Object) {
				see(event)
			}
		}
		select {
		case <-stopped:
		default:
			assert.Fail(t, "there is a gap: the watch has ended")
		}
	})
	t.Cleanup(func() {
		close(stopped)
		watcher.Stop()
		following.Wait()
	})
}
