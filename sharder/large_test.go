package sharder

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A page of objects with large annotations is no larger than other pages.
func TestAPageOfLargeObjectsIsNotLarge(t *testing.T) {
	const objects, size = 150, 50 << 10
	inCluster(t, func(t *testing.T, k *cluster) {
		large := strings.Repeat("x", size)
		for i := range objects {
			_, err := k.kube.CoreV1().ConfigMaps("default").Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Name:        fmt.Sprintf("o-%03d", i),
					Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: large},
				}}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		k.shard("a")
		time.Sleep(time.Second)
		var largest, lists atomic.Int64
		kube, meta := k.clients(k.server.Client("sharder"), func(next http.RoundTripper) http.RoundTripper {
			return ringtest.RoundTripper(func(q *http.Request) (*http.Response, error) {
				r, err := next.RoundTrip(q)
				if err != nil || !strings.HasSuffix(q.URL.Path, "/configmaps") || q.URL.Query().Get("watch") != "" {
					return r, err
				}
				body, err := io.ReadAll(r.Body)
				lists.Add(1)
				largest.Store(max(largest.Load(), int64(len(body))))
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				return r, err
			})
		})
		s, err := New(kube, meta, ringtest.TestMapper(), k.config())
		require.NoError(t, err)
		run := func(what string) {
			largest.Store(0)
			lists.Store(0)
			stop := k.begin(func(ctx context.Context) { assert.NoError(t, s.Run(ctx)) })
			defer stop()
			time.Sleep(30 * time.Second)
			k.requirePlaced(objects, "a")
			assert.Less(t, largest.Load(), int64(pageBytes+pageBytes/4), what)
			assert.Greater(t, largest.Load(), int64(pageBytes/2), "%s: nor is it small", what)
			assert.Less(t, lists.Load(), int64(30), "%s: pages of some 80 objects", what)
		}
		run("new objects")
		// The only object without a shard is now the ring's history. It is small, and says nothing
		// about the size of the others.
		run("assigned objects")
	})
}
