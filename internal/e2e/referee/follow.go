package referee

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	retry "k8s.io/client-go/tools/watch"
)

// Follow calls see with what a watch reports from a version on until the test ends. It leaves no
// gap when the API server ends the watch, as it does with a client that reads too slowly. If it
// cannot go on, the test fails.
func Follow(t testing.TB, version string, from cache.WatchFuncWithContext, see func(runtime.Object),
	kinds ...watch.EventType,
) {
	t.Helper()
	watcher, err := retry.NewRetryWatcherWithContext(context.WithoutCancel(t.Context()), version,
		&cache.ListWatch{WatchFuncWithContext: from})
	require.NoError(t, err)
	var following sync.WaitGroup
	stopped := make(chan struct{})
	following.Go(func() {
		for event := range watcher.ResultChan() {
			if slices.Contains(kinds, event.Type) {
				see(event.Object)
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
