package sharder

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// proxy answers the requests that go astray with a page and the code 404. client-go makes a
// NotFound error of it.
func (k *cluster) proxy(next http.RoundTripper) http.RoundTripper {
	return ringtest.RoundTripper(func(q *http.Request) (*http.Response, error) {
		if astray := k.astray.Load(); astray == nil || !(*astray)(q) {
			return next.RoundTrip(q)
		}
		return &http.Response{
			StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/html"}}, Request: q,
			Body: io.NopCloser(strings.NewReader("<html>no such page</html>")),
		}, nil
	})
}

// lose calls begin while the proxy answers the requests that match. The proxy stops after duration.
func (k *cluster) lose(duration time.Duration, match func(*http.Request) bool, begin func()) {
	k.astray.Store(&match)
	begin()
	time.Sleep(duration)
	k.astray.Store(nil)
}

func about(q *http.Request, method, resource string) bool {
	return q.Method == method && strings.Contains(q.URL.Path, "/"+resource+"/") &&
		!strings.HasSuffix(q.URL.Path, absentName)
}

// A page of a proxy does not prove that an object is gone. Because of it, the sharder does not
// forget an object, give it away, or take it for moved.
func TestAPageOfAProxyDoesNotProveThatAnObjectIsGone(t *testing.T) {
	t.Run("an object that cannot be patched is tried again", func(t *testing.T) {
		inCluster(t, func(t *testing.T, k *cluster) {
			stop, _ := k.settledWith(10, k.config(), "a")
			defer stop()
			k.lose(3*time.Second, func(q *http.Request) bool { return about(q, http.MethodPatch, "configmaps") },
				func() { k.create(10, "p") })
			require.Equal(t, 10, k.owners()["-"])
			time.Sleep(30 * time.Second)
			k.requirePlaced(20, "a")
		})
	})
	t.Run("nor is one that cannot be read", func(t *testing.T) {
		inCluster(t, func(_ *testing.T, k *cluster) {
			stop, _ := k.settledWith(10, k.config(), "a")
			defer stop()
			k.lose(3*time.Second, func(q *http.Request) bool {
				return about(q, http.MethodGet, "configmaps") || about(q, http.MethodPatch, "configmaps")
			}, func() { k.create(1, "p") })
			time.Sleep(30 * time.Second)
			k.requirePlaced(11, "a")
		})
	})
	t.Run("a child that cannot be moved keeps its root from work", func(t *testing.T) {
		inCluster(t, func(t *testing.T, k *cluster) {
			stop, shards := k.settledWith(20, k.familyConfig(), "a", "b")
			defer stop()
			k.bear(2, true)
			time.Sleep(10 * time.Minute)
			roots := k.rootsOf("a")
			k.lose(10*time.Second, func(q *http.Request) bool { return about(q, http.MethodPatch, "pods") },
				shards[0].release)
			assert.Equal(t, 20-len(roots), k.owners()["b"], "roots were assigned before their children")
			time.Sleep(time.Minute)
			k.requirePlaced(20, "b")
			k.requireFamilies(2)
			k.requireFloors(roots)
		})
	})
	t.Run("a root that cannot be assigned is tried again", func(t *testing.T) {
		inCluster(t, func(_ *testing.T, k *cluster) {
			stop, shards := k.settledWith(20, k.familyConfig(), "a", "b")
			defer stop()
			k.lose(3*time.Second, func(q *http.Request) bool { return about(q, http.MethodPatch, "configmaps") },
				shards[0].release)
			time.Sleep(20 * time.Second)
			k.requirePlaced(20, "b")
		})
	})
	t.Run("a child without a label is tried again", func(t *testing.T) {
		inCluster(t, func(_ *testing.T, k *cluster) {
			stop, _ := k.settledWith(5, k.familyConfig(), "a", "b")
			defer stop()
			k.lose(3*time.Second, func(q *http.Request) bool { return about(q, http.MethodPatch, "pods") },
				func() { k.bear(1, false) })
			time.Sleep(20 * time.Second)
			k.requireFamilies(1)
		})
	})
	t.Run("an object that cannot be stripped is not taken for stripped", func(t *testing.T) {
		inCluster(t, func(t *testing.T, k *cluster) {
			stop, shards := k.settledWith(5, k.config(), "a")
			stop()
			shards[0].release()
			match := func(q *http.Request) bool { return about(q, http.MethodPatch, "configmaps") }
			k.astray.Store(&match)
			result, _ := k.strip(k.config(), nil)
			time.Sleep(5 * time.Second)
			requirePending(t, result)
			k.astray.Store(nil)
			time.Sleep(time.Minute)
			require.NoError(t, <-result)
			assert.Zero(t, k.marked())
		})
	})
	t.Run("a Lease that cannot be read is not missed", func(t *testing.T) {
		inCluster(t, func(t *testing.T, k *cluster) {
			shards := k.session().planner.Shards
			a := protocol.OwnerEpoch{Shard: "a", LeaseUID: "l", Epoch: 1}
			match := func(q *http.Request) bool { return about(q, http.MethodGet, "leases") }
			k.astray.Store(&match)
			_, err := shards.StateOf(t.Context(), a)
			require.ErrorContains(t, err, "get the shards' Leases")
			k.astray.Store(nil)
			_, err = shards.StateOf(t.Context(), a)
			require.NoError(t, err)
		})
	})
	t.Run("a history that cannot be read is not a new ring's", func(t *testing.T) {
		inCluster(t, func(t *testing.T, k *cluster) {
			planner := k.session().planner
			unused := func(context.Context) (bool, error) { return false, nil }
			match := func(q *http.Request) bool { return about(q, http.MethodGet, "configmaps") }
			k.astray.Store(&match)
			fresh, err := planner.Load(t.Context(), unused)
			require.ErrorContains(t, err, "the ring's history")
			require.False(t, fresh)
			k.astray.Store(nil)
			fresh, err = planner.Load(t.Context(), unused)
			require.NoError(t, err)
			require.True(t, fresh)
		})
	})
	t.Run("the root of a child is not explained away", func(t *testing.T) {
		inCluster(t, func(t *testing.T, k *cluster) {
			stop, _ := k.settledWith(1, k.familyConfig(), "a")
			defer stop()
			root := k.objects()[0]
			name := k.bearOne(&root, "").Name
			stop()
			kube, meta := k.clients(k.server.Client("sharder"), k.proxy)
			s, err := New(kube, meta, ringtest.TestMapper(), k.familyConfig())
			require.NoError(t, err)
			match := func(q *http.Request) bool {
				return about(q, http.MethodGet, root.Name) || strings.HasSuffix(q.URL.Path, "/"+root.Name)
			}
			k.astray.Store(&match)
			_, err = s.Explain(t.Context(), api.ObjectRef{GVR: ringtest.Pods, Namespace: "default", Name: name})
			assert.ErrorContains(t, err, "get configmaps default/"+root.Name)
		})
	})
}

// session returns a session that does not run.
func (k *cluster) session() *session {
	kube, meta := k.clients(k.server.Client("sharder"), k.proxy)
	s, err := New(kube, meta, ringtest.TestMapper(), k.familyConfig())
	require.NoError(k.t, err)
	e, err := s.newSession(s.tracker, s.troubles)
	require.NoError(k.t, err)
	return e
}
