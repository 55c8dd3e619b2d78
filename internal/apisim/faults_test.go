package apisim_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// inBubble runs a test with a server and a connection of its own.
func inBubble(t *testing.T, test func(t *testing.T, server *apisim.Server, connection *apisim.Client, configMaps corev1client.ConfigMapInterface)) {
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
	inBubble(t, func(t *testing.T, _ *apisim.Server, connection *apisim.Client, configMaps corev1client.ConfigMapInterface) {
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
	inBubble(t, func(t *testing.T, _ *apisim.Server, connection *apisim.Client, configMaps corev1client.ConfigMapInterface) {
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

func TestBookmarksComeEveryMinute(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *apisim.Server, _ *apisim.Client, configMaps corev1client.ConfigMapInterface) {
		events, err := configMaps.Watch(t.Context(), metav1.ListOptions{AllowWatchBookmarks: true, LabelSelector: "none=such"})
		require.NoError(t, err)
		defer events.Stop()
		created, err := configMaps.Create(t.Context(), named("other"), metav1.CreateOptions{})
		require.NoError(t, err)
		begin := time.Now()
		for n := range 3 {
			e := <-events.ResultChan()
			assert.Equal(t, watch.Bookmark, e.Type)
			assert.Equal(t, created.ResourceVersion, e.Object.(*corev1.ConfigMap).ResourceVersion, "also of what is not selected")
			assert.Equal(t, time.Duration(n+1)*time.Minute, time.Since(begin))
		}
	})
}
