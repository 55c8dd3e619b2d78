package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/sharder/proxy"
)

// An API server that gets options in the body of a deletion ignores those of the query.
func isRehearsed(t *testing.T, q *http.Request) bool {
	if q.Method != http.MethodDelete {
		return q.URL.Query().Get("dryRun") == "All"
	}
	data, err := io.ReadAll(q.Body)
	assert.NoError(t, err)
	q.Body = io.NopCloser(strings.NewReader(string(data)))
	return strings.Contains(string(data), `"dryRun":["All"]`)
}

// rehearsing is a change of a configuration that counts what the program changes nevertheless.
func rehearsing(t *testing.T, log *zap.Logger, changes *[]string) func(*proxy.Config) {
	var mu sync.Mutex
	noted := through(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
		if q.Method != http.MethodGet && !isRehearsed(t, q) {
			mu.Lock()
			defer mu.Unlock()
			*changes = append(*changes, q.Method+" "+q.URL.Path)
		}
		return next.RoundTrip(q)
	})
	return func(c *proxy.Config) {
		noted(c)
		c.DryRun, c.Logger = true, log
		c.OwnElection = types.NamespacedName{Namespace: "default", Name: "program"}
	}
}

func TestARehearsalChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 2)
		var changes []string
		a := join(t, server, "a", rehearsing(t, zap.NewNop(), &changes))
		defer a.leave(t)
		settle()
		_, err := admin.CoordinationV1().Leases("default").Create(t.Context(),
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "another"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		stored, err := admin.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		maps, another := a.client.CoreV1().ConfigMaps("default"), metav1.ObjectMeta{Name: "another"}
		_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: another}, metav1.CreateOptions{})
		assert.NoError(t, err)
		_, err = maps.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m0"}},
			metav1.UpdateOptions{})
		assert.NoError(t, err)
		_, err = maps.Patch(t.Context(), "m0", types.MergePatchType, []byte(`{"data":{"k":"v"}}`),
			metav1.PatchOptions{})
		assert.NoError(t, err)
		assert.NoError(t, maps.Delete(t.Context(), "m0", metav1.DeleteOptions{}))
		assert.NoError(t, a.deleteBlue(t))
		leases := a.client.CoordinationV1().Leases("default")
		assert.NoError(t, leases.Delete(t.Context(), "another", metav1.DeleteOptions{}))
		for _, q := range []struct{ method, path, body string }{
			{http.MethodDelete, "/api/v1/namespaces/default/configmaps/m0?gracePeriodSeconds=1", ""},
			{http.MethodDelete, "/apis/coordination.k8s.io/v1/namespaces/default/leases/another", "{}"},
		} {
			assert.Equal(t, http.StatusOK, a.ask(q.method, q.path, "application/json", q.body).Code, q.path)
		}
		for method, path := range map[string]string{
			http.MethodGet:  "/api/v1/namespaces/default/pods/p/exec?command=rm",
			http.MethodPost: "/unknown",
		} {
			got := a.ask(method, path, "", "")
			assert.Equal(t, http.StatusMethodNotAllowed, got.Code, path)
			assert.Contains(t, got.Body.String(), "it cannot be sent as a dry run")
		}
		assert.Equal(t, http.StatusBadRequest,
			a.ask(http.MethodDelete, "/api/v1/namespaces/default/configmaps/m0", "application/json", "{").Code)
		got := a.ask(http.MethodGet, "/api/v1/namespaces/default/pods/p/log", "", "")
		assert.NotEqual(t, http.StatusMethodNotAllowed, got.Code)
		assert.Empty(t, changes)
		after, err := admin.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Equal(t, stored.Items, after.Items)

		_, err = leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "program"}},
			metav1.CreateOptions{})
		assert.NoError(t, err)
		assert.Equal(t, []string{"POST /apis/coordination.k8s.io/v1/namespaces/default/leases"}, changes)
	})
}

// delayed is a body that arrives late.
type delayed struct {
	io.ReadCloser
	by time.Duration
}

// Read implements io.Reader.
func (d delayed) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err == nil {
		time.Sleep(d.by)
	}
	return n, err
}

// The proxy's own watch may be later than the program's.
func TestADeletionAfterAMoveIsWarnedOf(t *testing.T) {
	const (
		begun   = "objects move to other shards: deletions within a minute are logged"
		warning = "a deletion followed the move of an object: do not shard a program that deletes because an " +
			"object has moved"
	)
	for name, c := range map[string]struct {
		pause, lag time.Duration
		method     string
		warnings   int
	}{
		"at once":           {method: http.MethodDelete, warnings: 1},
		"the watch is late": {method: http.MethodDelete, lag: time.Second / 5, warnings: 1},
		"an eviction":       {method: http.MethodPost, warnings: 1},
		"another write":     {method: http.MethodPatch},
		"later":             {method: http.MethodDelete, pause: 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, admin := newServer(t, 1)
				core, logs := observer.New(zap.InfoLevel)
				var changes []string
				defer time.Sleep(time.Second) // an answer may still be delayed
				late := through(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
					answer, err := next.RoundTrip(q)
					if strings.Contains(q.Header.Get("Accept"), "PartialObjectMetadata") && err == nil {
						answer.Body = delayed{answer.Body, c.lag}
					}
					return answer, err
				})
				a := join(t, server, "a", func(p *proxy.Config) {
					rehearsing(t, zap.New(core), &changes)(p)
					late(p)
				})
				defer a.leave(t)
				settle()
				path := "/api/v1/namespaces/default/secrets/cleaned"
				if c.method == http.MethodPost {
					path = "/api/v1/namespaces/default/pods/cleaned/eviction"
				}
				a.ask(c.method, path, "application/merge-patch+json", "")
				time.Sleep(2 * time.Second)
				require.Empty(t, logs.FilterMessage(warning).All(), "nothing has moved")
				w, err := a.client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				assert.EqualValues(t, "ADDED", (<-w.ResultChan()).Type)
				b := join(t, server, "b", rehearsing(t, zap.NewNop(), &changes))
				defer b.leave(t)
				admin.drains("a")
				for event := range w.ResultChan() {
					if event.Type == "DELETED" {
						break
					}
				}
				w.Stop()
				time.Sleep(c.pause)
				a.ask(c.method, path, "application/merge-patch+json", "")
				time.Sleep(2 * time.Second)
				assert.Len(t, logs.FilterMessage(warning).All(), c.warnings)
				assert.Len(t, logs.FilterMessage(begun).All(), 1)
				for _, each := range logs.FilterMessage(warning).All() {
					assert.Equal(t, "default/m0", each.ContextMap()["moved"])
					assert.Equal(t, "default/cleaned", each.ContextMap()["deleted"])
				}
			})
		})
	}
}
