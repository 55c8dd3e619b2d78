package apisim_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// inBubble runs a test with a server and a connection of its own.
func inBubble(t *testing.T,
	test func(t *testing.T, server *apisim.Server, connection *apisim.Client,
		configMaps corev1client.ConfigMapInterface),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		connection := server.Client("a")
		client, err := kubernetes.NewForConfig(connection.Config())
		require.NoError(t, err)
		test(t, server, connection, client.CoreV1().ConfigMaps("ns"))
	})
}

func named(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestLostRequestsAndResponses(t *testing.T) {
	inBubble(t,
		func(t *testing.T, _ *apisim.Server, connection *apisim.Client, configMaps corev1client.ConfigMapInterface) {
			create := func(name string) error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begin := time.Now()
				_, err := configMaps.Create(ctx, named(name), metav1.CreateOptions{})
				assert.Equal(t, time.Second, time.Since(begin), "no answer comes")
				return err
			}
			connection.Inject(apisim.Faults{LoseRequest: apisim.Always})
			require.ErrorIs(t, create("never-arrived"), context.DeadlineExceeded)
			connection.Inject(apisim.Faults{LoseResponse: apisim.Always})
			require.ErrorIs(t, create("committed"), context.DeadlineExceeded)
			connection.Inject(apisim.Faults{Refuse: func(r *http.Request) bool { return r.Method == http.MethodPost }})
			_, err := configMaps.Create(t.Context(), named("refused"), metav1.CreateOptions{})
			require.ErrorContains(t, err, "connection reset")

			list, err := configMaps.List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			require.Len(t, list.Items, 1)
			assert.Equal(t, "committed", list.Items[0].Name)
		})
}

func TestLatencyAndWatchLag(t *testing.T) {
	inBubble(t,
		func(t *testing.T, _ *apisim.Server, connection *apisim.Client, configMaps corev1client.ConfigMapInterface) {
			events, err := configMaps.Watch(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			defer events.Stop()
			connection.Inject(apisim.Faults{Latency: 100 * time.Millisecond, WatchLag: time.Minute})
			begin := time.Now()
			_, err = configMaps.Create(t.Context(), named("slow"), metav1.CreateOptions{})
			require.NoError(t, err)
			assert.Equal(t, 200*time.Millisecond, time.Since(begin), "there and back")
			connection.Inject(apisim.Faults{})
			_, err = configMaps.Create(t.Context(), named("fast"), metav1.CreateOptions{})
			require.NoError(t, err)
			for _, name := range []string{"slow", "fast"} {
				e := <-events.ResultChan()
				assert.Equal(t, name, e.Object.(*corev1.ConfigMap).Name, "a connection keeps the order")
				assert.Equal(t, 100*time.Millisecond+time.Minute, time.Since(begin), "since the write was committed")
			}
		})
}

func TestAWatchThatLagsEndsWithItsClient(t *testing.T) {
	for range 500 { // two goroutines race: one reads, one hangs up
		inBubble(t,
			func(t *testing.T, _ *apisim.Server, connection *apisim.Client,
				configMaps corev1client.ConfigMapInterface,
			) {
				connection.Inject(apisim.Faults{WatchLag: time.Hour})
				events, err := configMaps.Watch(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				_, err = configMaps.Create(t.Context(), named("late"), metav1.CreateOptions{})
				require.NoError(t, err)
				events.Stop()
			})
	}
}

func TestBookmarksComeEveryMinute(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *apisim.Server, _ *apisim.Client, configMaps corev1client.ConfigMapInterface) {
		events, err := configMaps.Watch(t.Context(),
			metav1.ListOptions{AllowWatchBookmarks: true, LabelSelector: "none=such"})
		require.NoError(t, err)
		defer events.Stop()
		created, err := configMaps.Create(t.Context(), named("other"), metav1.CreateOptions{})
		require.NoError(t, err)
		begin := time.Now()
		for n := range 3 {
			e := <-events.ResultChan()
			assert.Equal(t, watch.Bookmark, e.Type)
			assert.Equal(t, created.ResourceVersion, e.Object.(*corev1.ConfigMap).ResourceVersion,
				"also of what is not selected")
			assert.Equal(t, time.Duration(n+1)*time.Minute, time.Since(begin))
		}
	})
}

func TestSentRequestsArrive(t *testing.T) {
	inBubble(t,
		func(t *testing.T, _ *apisim.Server, connection *apisim.Client, configMaps corev1client.ConfigMapInterface) {
			connection.Inject(apisim.Faults{Latency: time.Minute})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := configMaps.Create(ctx, named("late"), metav1.CreateOptions{})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			connection.Inject(apisim.Faults{})
			time.Sleep(58 * time.Second)
			_, err = configMaps.Get(t.Context(), "late", metav1.GetOptions{})
			require.True(t, apierrors.IsNotFound(err), "%v", err)
			time.Sleep(time.Second)
			synctest.Wait()
			_, err = configMaps.Get(t.Context(), "late", metav1.GetOptions{})
			require.NoError(t, err, "although its sender has given up")
		})
}

func TestPausedReplica(t *testing.T) {
	inBubble(t,
		func(t *testing.T, server *apisim.Server, connection *apisim.Client,
			configMaps corev1client.ConfigMapInterface,
		) {
			events, err := configMaps.Watch(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			defer events.Stop()
			connection.Inject(apisim.Faults{Latency: time.Second})
			begin := time.Now()
			done := make(chan error)
			create := func(name string) {
				_, err := configMaps.Create(t.Context(), named(name), metav1.CreateOptions{})
				done <- err
			}
			go create("under-way")
			synctest.Wait()
			connection.Pause()
			connection.Inject(apisim.Faults{})
			go create("not-sent")
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.Len(t, server.Trace(), 2, "what was sent has arrived")
			assert.Empty(t, events.ResultChan(), "nothing is taken in")
			connection.Resume()
			require.NoError(t, <-done)
			require.NoError(t, <-done)
			assert.Equal(t, "under-way", (<-events.ResultChan()).Object.(*corev1.ConfigMap).Name)
			assert.Equal(t, time.Minute, time.Since(begin))
		})
}

func TestSilentWatch(t *testing.T) {
	inBubble(t,
		func(t *testing.T, _ *apisim.Server, connection *apisim.Client, configMaps corev1client.ConfigMapInterface) {
			events, err := configMaps.Watch(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			abandoned, err := configMaps.Watch(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			connection.Inject(apisim.Faults{Silent: true})
			_, err = configMaps.Create(t.Context(), named("a"), metav1.CreateOptions{})
			require.NoError(t, err)
			time.Sleep(time.Hour)
			assert.Empty(t, events.ResultChan())
			abandoned.Stop()
			for range abandoned.ResultChan() {
				t.Error("an event in the silence")
			}
			connection.Inject(apisim.Faults{})
			assert.Equal(t, watch.Added, (<-events.ResultChan()).Type)
			events.Stop()
		})
}

func TestARefusedWatchEndsWithItsRequest(t *testing.T) {
	inBubble(t,
		func(t *testing.T, server *apisim.Server, connection *apisim.Client,
			configMaps corev1client.ConfigMapInterface,
		) {
			_, err := configMaps.Create(t.Context(), named("a"), metav1.CreateOptions{})
			require.NoError(t, err)
			server.Compact()
			connection.Inject(apisim.Faults{Silent: true})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, connection.Config().Host+
				"/api/v1/namespaces/ns/configmaps?watch=true&resourceVersion=1", nil)
			require.NoError(t, err)
			response, err := connection.RoundTrip(r)
			require.NoError(t, err)
			data, err := io.ReadAll(response.Body) // which no one closes
			require.NoError(t, err)
			assert.Empty(t, data)
			require.Error(t, ctx.Err())
		})
}

func TestThrottling(t *testing.T) {
	inBubble(t,
		func(t *testing.T, server *apisim.Server, connection *apisim.Client,
			configMaps corev1client.ConfigMapInterface,
		) {
			connection.Inject(apisim.Faults{Throttle: apisim.Always})
			time.AfterFunc(2500*time.Millisecond, func() { connection.Inject(apisim.Faults{}) })
			begin := time.Now()
			_, err := configMaps.Create(t.Context(), named("a"), metav1.CreateOptions{})
			require.NoError(t, err, "client-go follows the advice to try again")
			assert.Equal(t, 3*time.Second, time.Since(begin))
			assert.Len(t, server.Trace(), 1, "what is throttled is not served")
		})
}

func TestSeveredConnection(t *testing.T) {
	inBubble(t,
		func(t *testing.T, _ *apisim.Server, connection *apisim.Client, configMaps corev1client.ConfigMapInterface) {
			events, err := configMaps.Watch(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			defer events.Stop()
			connection.Sever()
			for e := range events.ResultChan() {
				assert.Equal(t, watch.Error, e.Type)
			}
			_, err = configMaps.Create(t.Context(), named("a"), metav1.CreateOptions{})
			require.ErrorContains(t, err, "connection reset")
		})
}

func TestWatchesGoBackInTimeAfterARestart(t *testing.T) {
	inBubble(t,
		func(t *testing.T, server *apisim.Server, _ *apisim.Client, configMaps corev1client.ConfigMapInterface) {
			open, err := configMaps.Watch(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			for _, name := range []string{"a", "b", "c"} {
				_, err := configMaps.Create(t.Context(), named(name), metav1.CreateOptions{})
				require.NoError(t, err)
			}
			require.NoError(t, configMaps.Delete(t.Context(), "a", metav1.DeleteOptions{}))
			server.Restart(2)
			for range open.ResultChan() { // ends
			}
			seen := func(options metav1.ListOptions) (types []watch.EventType) {
				w, err := configMaps.Watch(t.Context(), options)
				require.NoError(t, err)
				time.AfterFunc(time.Second, w.Stop)
				for e := range w.ResultChan() {
					types = append(types, e.Type)
				}
				return types
			}
			stale := []watch.EventType{watch.Added, watch.Added, watch.Added, watch.Deleted}
			assert.Equal(t, stale, seen(metav1.ListOptions{}))
			assert.Equal(t, stale, seen(metav1.ListOptions{ResourceVersion: "0"}))
			initial := metav1.ListOptions{
				SendInitialEvents:    ptr.To(true),
				ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			}
			fresh := []watch.EventType{watch.Added, watch.Added}
			assert.Equal(t, fresh, seen(initial), "consistent")
			server.Restart(0)
			assert.Equal(t, fresh, seen(metav1.ListOptions{}))
		})
}

// TestReplayKeepsTheOrder has clients race to create one object, and who wins is chance: but not in
// a replay.
func TestReplayKeepsTheOrder(t *testing.T) {
	const clients = 8
	race := func(t *testing.T, trace []apisim.Served) (order []apisim.Served) {
		synctest.Test(t, func(t *testing.T) {
			server := apisim.NewServer()
			if trace != nil {
				server.Replay(trace)
			}
			var racing sync.WaitGroup
			for i := range clients {
				client, err := kubernetes.NewForConfig(server.Client(strconv.Itoa(i)).Config())
				require.NoError(t, err)
				racing.Go(func() {
					_, _ = client.CoreV1().ConfigMaps("ns").Create(t.Context(), named("a"), metav1.CreateOptions{})
					_, _ = client.CoreV1().ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{})
				})
			}
			racing.Wait()
			order = server.Trace()
		})
		return order
	}
	orders := map[string]bool{}
	for n := 0; n < 10 || len(orders) == 1 && n < 1000; n++ {
		first := race(t, nil)
		require.Len(t, first, 2*clients)
		orders[fmt.Sprint(first)] = true
		assert.Equal(t, first, race(t, first))
	}
	assert.Greater(t, len(orders), 1, "or there is nothing to show")

	trace := race(t, nil)
	missing := slices.Insert(slices.Clone(trace), 3,
		apisim.Served{Client: "gone", Method: "GET", Path: "/api/v1/namespaces/ns/configmaps/a"})
	again := race(t, missing)
	for i := range again {
		again[i].At = 0
	}
	assert.Equal(t, trace, again, "what does not come is skipped")
}

func TestObservedChanges(t *testing.T) {
	inBubble(t,
		func(t *testing.T, server *apisim.Server, connection *apisim.Client,
			configMaps corev1client.ConfigMapInterface,
		) {
			var seen []string
			server.Observe(func(c apisim.Change) {
				seen = append(seen, fmt.Sprint(c.Client, " ", c.Before != nil, " ", c.After != nil))
			})
			created, err := configMaps.Create(t.Context(), named("x"), metav1.CreateOptions{})
			require.NoError(t, err)
			_, err = configMaps.Create(t.Context(), named("x"), metav1.CreateOptions{})
			require.True(t, apierrors.IsAlreadyExists(err))
			created.Data = map[string]string{"a": "b"}
			_, err = configMaps.Update(t.Context(), created, metav1.UpdateOptions{})
			require.NoError(t, err)
			connection.Inject(apisim.Faults{LoseRequest: apisim.Always})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.Error(t, configMaps.Delete(ctx, "x", metav1.DeleteOptions{}))
			connection.Inject(apisim.Faults{})
			require.NoError(t, configMaps.Delete(t.Context(), "x", metav1.DeleteOptions{}))
			assert.Equal(t, []string{"a false true", "a true true", "a true false"}, seen)
		})
}

func TestOddAnswersSayNothingOfObjects(t *testing.T) {
	server := apisim.NewServer()
	for i, odd := range apisim.Oddities {
		connection := server.Client("odd")
		connection.Inject(apisim.Faults{Odd: odd})
		client, err := kubernetes.NewForConfig(connection.Config())
		require.NoError(t, err)
		l, err := client.CoordinationV1().Leases("ns").Get(t.Context(), "l", metav1.GetOptions{})
		assert.True(t, err != nil || l.Name == "", i)
		assert.False(t, kube.Absent(err, coordinationv1.Resource("leases"), "l"), "%d: %v", i, err)
	}
	assert.Empty(t, server.Trace(), "the server is not asked")
}
