package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/sharder/proxy"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// administrator is a user of a server.
type administrator struct {
	*testing.T
	kubernetes.Interface
	server *apisim.Server
}

// newServer returns a server with n ConfigMaps, every other one blue, and its administrator.
func newServer(t *testing.T, n int) (*apisim.Server, administrator) {
	server := apisim.NewServer(apisim.Resource{GroupVersionResource: secrets, Kind: "Secret", Namespaced: true})
	client, err := kubernetes.NewForConfig(server.Client("admin").Config())
	require.NoError(t, err)
	for i := range n {
		meta := metav1.ObjectMeta{
			Name: fmt.Sprint("m", i), Labels: map[string]string{"colour": []string{"blue", "red"}[i%2]},
		}
		_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta},
			metav1.CreateOptions{})
		require.NoError(t, err)
	}
	return server, administrator{t, client, server}
}

// stored returns a ConfigMap as it is stored.
func (a administrator) stored(name string) *corev1.ConfigMap {
	a.Helper()
	o, err := a.CoreV1().ConfigMaps("default").Get(a.Context(), name, metav1.GetOptions{})
	require.NoError(a, err)
	return o
}

// owners returns the shards of all ConfigMaps of the ring, by name.
func (a administrator) owners() map[string]string {
	list, err := a.CoreV1().ConfigMaps("default").List(a.Context(), metav1.ListOptions{LabelSelector: "colour"})
	require.NoError(a, err)
	owners := map[string]string{}
	for _, o := range list.Items {
		owners[o.Name] = o.Labels[api.ShardLabel("r")]
	}
	return owners
}

// patches patches a ConfigMap.
func (a administrator) patches(name, patch string) {
	_, err := a.CoreV1().ConfigMaps("default").Patch(a.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	assert.NoError(a, err)
}

// drains has all objects of a shard go to others.
func (a administrator) drains(shard string) {
	_, err := a.CoordinationV1().Leases("default").Patch(a.Context(), shard, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"0"}}}`, shardlease.WeightAnnotation), metav1.PatchOptions{})
	require.NoError(a, err)
}

// sent returns the paths of the requests with this method that have arrived from a client.
func (a administrator) sent(client, method string) []string {
	var paths []string
	for _, r := range a.server.Trace() {
		if r.Client == client && r.Method == method {
			paths = append(paths, r.Path)
		}
	}
	return paths
}

// through returns a change of the configuration that sends requests through wrap, before they are guarded.
func through(wrap func(next http.RoundTripper, q *http.Request) (*http.Response, error)) func(*proxy.Config) {
	return func(c *proxy.Config) {
		c.Upstream = rest.CopyConfig(c.Upstream)
		c.Upstream.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return ringtest.RoundTripper(func(q *http.Request) (*http.Response, error) { return wrap(next, q) })
		})
	}
}

// ask sends a request as the program does, without what clients do about the answer.
func (m *member) ask(method, path, contentType, body string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	m.proxy.ServeHTTP(w, r)
	return w
}

// deleteBlue deletes the blue ConfigMaps as one collection.
func (m *member) deleteBlue(t *testing.T) error {
	return m.client.CoreV1().ConfigMaps("default").DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "colour=blue"})
}

func TestACollectionIsDeletedOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 40)
		a, b := join(t, server, "a", nil), join(t, server, "b", nil)
		defer a.leave(t)
		defer b.leave(t)
		settle()
		want := admin.owners()
		for name, owner := range want {
			if owner == "a" && admin.stored(name).Labels["colour"] == "blue" {
				delete(want, name)
			}
		}
		deleted := 40 - len(want)
		require.Less(t, deleted, 20, "others are b's")
		require.NoError(t, a.deleteBlue(t))
		assert.Equal(t, want, admin.owners(), "what is not its own, or not selected, stays")
		sent := admin.sent("a", http.MethodDelete)
		assert.Len(t, sent, deleted)
		for _, each := range sent {
			assert.NotEqual(t, "configmaps", path.Base(each), "each object by its name")
		}
	})
}

// The list is answered, and then all objects move to another shard.
func TestWhatMovesDuringADeletionIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 10)
		var deleting atomic.Bool
		a := join(t, server, "a", through(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(q)
			if q.Method == http.MethodGet && deleting.Swap(false) {
				admin.drains("a")
				settle()
			}
			return answer, err
		}))
		defer a.leave(t)
		settle()
		require.Len(t, a.names(t), 10)
		b := join(t, server, "b", nil)
		defer b.leave(t)
		deleting.Store(true)
		require.NoError(t, a.deleteBlue(t), "none of its own is left")
		assert.Len(t, admin.owners(), 10)
		assert.NotContains(t, admin.owners(), "a")
		assert.Empty(t, admin.sent("a", http.MethodDelete))
	})
}

func TestADeletionOfACollectionEndsWithAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 10)
		var attempts atomic.Int32
		a := join(t, server, "a", nil)
		defer a.leave(t)
		settle()
		a.connection.Inject(apisim.Faults{Refuse: func(q *http.Request) bool {
			return q.Method == http.MethodDelete && attempts.Add(1) == 2
		}})
		assert.ErrorContains(t, a.deleteBlue(t), "connection reset by peer")
		assert.EqualValues(t, 2, attempts.Load())
		assert.Len(t, admin.owners(), 9)
		a.connection.Inject(apisim.Faults{})
		assert.NoError(t, a.deleteBlue(t), "again")
		assert.Len(t, admin.owners(), 5)
	})
}

func TestAStaleUpdateIsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 1)
		a := join(t, server, "a", nil)
		defer a.leave(t)
		settle()
		maps := a.client.CoreV1().ConfigMaps("default")
		stale, err := maps.Get(t.Context(), "m0", metav1.GetOptions{})
		require.NoError(t, err)
		a.connection.Inject(apisim.Faults{WatchLag: time.Minute})
		admin.patches("m0", `{"data":{"k":"by the administrator"}}`)
		_, err = maps.Update(t.Context(), stale, metav1.UpdateOptions{})
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		settle()
		_, err = maps.Update(t.Context(), stale, metav1.UpdateOptions{})
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		assert.ErrorContains(t, err, "the object has been modified")

		admin.patches("m0", `{"data":{"k":"once more"},"metadata":{"labels":{"shard.bellwether.dev/another":"z"}}}`)
		present, err := maps.Get(t.Context(), "m0", metav1.GetOptions{})
		require.NoError(t, err)
		present.Data["k"] = "by the program"
		_, err = maps.Update(t.Context(), present, metav1.UpdateOptions{})
		assert.NoError(t, err, "the program has read what no cache shows yet")
		assert.Equal(t, "by the program", admin.stored("m0").Data["k"])
		assert.Equal(t, "a", admin.stored("m0").Labels[api.ShardLabel("r")])
		assert.Equal(t, "z", admin.stored("m0").Labels["shard.bellwether.dev/another"], "nor does it show this mark")
	})
}

// An object is deleted, and another gets its name, before the cache shows that. The new one is no shard's yet.
func TestAnObjectOfTheSameNameIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 1)
		a := join(t, server, "a", nil)
		defer a.leave(t)
		settle()
		a.connection.Inject(apisim.Faults{WatchLag: time.Minute})
		require.NoError(t, admin.CoreV1().ConfigMaps("default").Delete(t.Context(), "m0", metav1.DeleteOptions{}))
		_, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m0"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		maps := a.client.CoreV1().ConfigMaps("default")
		o, err := maps.Get(t.Context(), "m0", metav1.GetOptions{})
		require.NoError(t, err)
		o.Data = map[string]string{"k": "v"}
		_, err = maps.Update(t.Context(), o, metav1.UpdateOptions{})
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		o.ResourceVersion = ""
		_, err = maps.Update(t.Context(), o, metav1.UpdateOptions{})
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		assert.Empty(t, admin.stored("m0").Data)
	})
}

// Marks change after the proxy has read them, and before the write arrives.
func TestMarksAreKeptAsTheyAreWhenTheWriteArrives(t *testing.T) {
	const update = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m0"},"data":{"k":"v"}}`
	for _, c := range []struct{ method, contentType, body string }{
		{http.MethodPut, "application/json", update},
		{
			http.MethodPatch, "application/json-patch+json",
			`[{"op":"add","path":"/metadata/labels","value":{}},{"op":"add","path":"/data","value":{"k":"v"}}]`,
		},
		{http.MethodPatch, "application/merge-patch+json", `{"metadata":{"labels":null},"data":{"k":"v"}}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			server, admin := newServer(t, 1)
			var writing atomic.Bool
			a := join(t, server, "a", through(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
				if q.Method == c.method && writing.Swap(false) {
					admin.patches("m0", `{"metadata":{"labels":{"shard.bellwether.dev/another":"z"}}}`)
				}
				return next.RoundTrip(q)
			}))
			defer a.leave(t)
			settle()
			writing.Store(true)
			got := a.ask(c.method, "/api/v1/namespaces/default/configmaps/m0", c.contentType, c.body)
			assert.Equal(t, http.StatusOK, got.Code, "%s", got.Body)
			assert.NotContains(t, got.Body.String(), "bellwether.dev")
			stored := admin.stored("m0")
			assert.Equal(t, "v", stored.Data["k"], c.contentType)
			assert.Equal(t, "a", stored.Labels[api.ShardLabel("r")], c.contentType)
			assert.Equal(t, "z", stored.Labels["shard.bellwether.dev/another"], c.contentType)
			assert.NotContains(t, stored.Labels, "colour", c.contentType)
		})
	}
}

// The answer to a write is lost. The object is let go of when the time for it is over, and meanwhile it is
// neither shown nor written to.
func TestAWriteThatHangsDoesNotHoldUpAHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 5)
		a := join(t, server, "a", nil)
		defer a.leave(t)
		settle()
		b := join(t, server, "b", nil)
		defer b.leave(t)
		settle()
		mine := a.names(t)[0]
		a.connection.Inject(apisim.Faults{LoseResponse: func(q *http.Request) bool {
			return q.Method == http.MethodPut && path.Base(path.Dir(q.URL.Path)) == "configmaps"
		}})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := a.client.CoreV1().ConfigMaps("default").Update(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: mine}}, metav1.UpdateOptions{})
			failed <- err
		}()
		synctest.Wait()
		admin.drains("a")
		require.Eventually(t, func() bool {
			_, drained := admin.stored(mine).Labels[api.DrainLabel("r")]
			return drained
		}, time.Minute, time.Second)
		synctest.Wait()
		assert.NotContains(t, a.names(t), mine)
		got := a.ask(http.MethodPatch, "/api/v1/namespaces/default/configmaps/"+mine,
			"application/merge-patch+json", "{}")
		assert.Equal(t, http.StatusTooManyRequests, got.Code)
		assert.Equal(t, "1", got.Header().Get("Retry-After"))
		settle()
		select {
		case err := <-failed:
			assert.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
		default:
			assert.Fail(t, "the request is not cut off")
		}
		assert.Equal(t, "b", admin.stored(mine).Labels[api.ShardLabel("r")])
	})
}

// A child is marked if its root is late. When the root comes, the program must not take the child for deleted.
func TestAMarkedChildStaysInSight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 1)
		a := join(t, server, "a", nil)
		defer a.leave(t)
		settle()
		root := admin.stored("m0")
		secrets := a.client.CoreV1().Secrets("default")
		_, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: "child", OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(root, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
			},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
		seen, err := secrets.Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		var events []watch.EventType
		var watching sync.WaitGroup
		watching.Go(func() {
			for e := range seen.ResultChan() {
				events = append(events, e.Type)
			}
		})
		_, err = admin.CoreV1().Secrets("default").Patch(t.Context(), "child", types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, api.DrainLabel("r")), metav1.PatchOptions{})
		require.NoError(t, err)
		settle()
		stored, err := admin.CoreV1().Secrets("default").Get(t.Context(), "child", metav1.GetOptions{})
		require.NoError(t, err)
		require.NotContains(t, stored.Labels, api.DrainLabel("r"), "the sharder has removed the mark")
		seen.Stop()
		watching.Wait()
		assert.Contains(t, events, watch.Modified)
		assert.NotContains(t, events, watch.Deleted)
	})
}

// While an object moves, a client repeats other writes by itself.
func TestACreationIsDecidedOnAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 1)
		a := joinAs(t, server, replica.Config{Identity: "a", Quiet: time.Minute}, nil)
		defer a.leave(t)
		settle()
		root := admin.stored("m0")
		b := join(t, server, "b", nil)
		defer b.leave(t)
		admin.drains("a")
		require.Eventually(t, func() bool {
			_, draining := admin.stored("m0").Labels[api.DrainLabel("r")]
			return draining
		}, time.Minute, time.Second)
		synctest.Wait()
		creation := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"generateName":"x","ownerReferences":`+
			`[{"apiVersion":"v1","kind":"ConfigMap","name":"m0","uid":%q,"controller":true}]}}`, root.UID)
		got := a.ask(http.MethodPost, "/api/v1/namespaces/default/secrets", "application/json", creation)
		assert.Equal(t, http.StatusConflict, got.Code, "%s", got.Body)
		assert.Empty(t, got.Header().Get("Retry-After"))
		got = a.ask(http.MethodPatch, "/api/v1/namespaces/default/configmaps/m0", "application/merge-patch+json", "{}")
		assert.Equal(t, http.StatusTooManyRequests, got.Code, "%s", got.Body)
		settle()
		assert.Equal(t, "b", admin.owners()["m0"])
	})
}

// A root comes with a child, which the program's watch may show later than the proxy's. Without one it need not wait.
func TestARootThatHasMovedGetsNoSecondChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 2)
		a := join(t, server, "a", nil)
		settle()
		create := func(m *member, root string) int {
			creation := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q,"ownerReferences":`+
				`[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q,"controller":true}]}}`,
				"of-"+root+"-by-"+m.Lease.Identity(), root, admin.stored(root).UID)
			return m.ask(http.MethodPost, "/api/v1/namespaces/default/secrets", "application/json", creation).Code
		}
		require.Equal(t, http.StatusCreated, create(a, "m0"))
		b := join(t, server, "b", nil)
		defer b.leave(t)
		w, err := b.client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		defer w.Stop()
		a.leave(t)
		for came := map[string]bool{}; len(came) < 2; {
			root := (<-w.ResultChan()).Object.(*corev1.ConfigMap).Name
			if came[root] {
				continue
			}
			came[root] = true
			time.Sleep(time.Minute) // the program is stopped
			want := map[string]int{"m0": http.StatusConflict, "m1": http.StatusCreated}
			assert.Equal(t, want[root], create(b, root), root)
		}
		time.Sleep(3 * time.Second)
		assert.Equal(t, http.StatusCreated, create(b, "m0"), "it needs another")
		_, err = b.client.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		for event := range w.ResultChan() {
			if event.Type == "ADDED" {
				break
			}
		}
		synctest.Wait()
		assert.Equal(t, http.StatusCreated, create(b, "new"))
	})
}

// slowly is the connection of a program that does not read its answers.
type slowly struct {
	http.ResponseWriter
	read chan struct{}
}

// WriteHeader implements http.ResponseWriter.
func (s slowly) WriteHeader(code int) {
	<-s.read
	s.ResponseWriter.WriteHeader(code)
}

func TestAProgramThatReadsSlowlyDoesNotHoldUpAHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 1)
		a := join(t, server, "a", nil)
		defer a.leave(t)
		settle()
		b := join(t, server, "b", nil)
		defer b.leave(t)
		settle()
		owner := map[string]*member{"a": a, "b": b}[admin.owners()["m0"]]
		r := httptest.NewRequest(http.MethodPatch, "/api/v1/namespaces/default/configmaps/m0", strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/merge-patch+json")
		recorder, read := httptest.NewRecorder(), make(chan struct{})
		var answering sync.WaitGroup
		answering.Go(func() { owner.proxy.ServeHTTP(slowly{recorder, read}, r) })
		synctest.Wait()
		admin.drains(owner.Lease.Identity())
		settle()
		assert.NotEqual(t, owner.Lease.Identity(), admin.owners()["m0"])
		close(read)
		answering.Wait()
		assert.Equal(t, http.StatusOK, recorder.Code)
	})
}

// The in-memory server has no server-side apply.
func TestAppliesHaveTheStampAndNoOtherMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _ := newServer(t, 1)
		var mu sync.Mutex
		var applied string
		a := join(t, server, "a", through(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
			if q.Header.Get("Content-Type") != string(types.ApplyYAMLPatchType) {
				return next.RoundTrip(q)
			}
			data, err := io.ReadAll(q.Body)
			mu.Lock()
			defer mu.Unlock()
			applied = string(data)
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(bytes.NewReader(data)), Request: q,
			}, err
		}))
		defer a.leave(t)
		settle()
		root, err := a.client.CoreV1().ConfigMaps("default").Get(t.Context(), "m0", metav1.GetOptions{})
		require.NoError(t, err)
		owner := *metav1.NewControllerRef(root, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		child, err := a.client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "child", OwnerReferences: []metav1.OwnerReference{owner}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		for resource, c := range map[string]struct{ name, labels string }{
			"secrets":    {"child", `{"shard.bellwether.dev/r":"a"}`}, // or the apply would remove it
			"configmaps": {"m0", ""},
		} {
			got := a.ask(http.MethodPatch, "/api/v1/namespaces/default/"+resource+"/"+c.name+"?fieldManager=m",
				string(types.ApplyYAMLPatchType),
				"metadata:\n  name: "+c.name+"\n  labels:\n    drain.bellwether.dev/r: b\n")
			assert.Equal(t, http.StatusOK, got.Code, "%s", got.Body)
			assert.NotContains(t, got.Body.String(), "bellwether.dev")
			mu.Lock()
			if c.labels == "" {
				assert.JSONEq(t, `{"metadata":{"name":"m0","uid":"`+string(root.UID)+`"}}`, applied)
			} else {
				want := `{"metadata":{"name":"child","uid":"` + string(child.UID) + `","labels":` + c.labels + `}}`
				assert.JSONEq(t, want, applied)
			}
			mu.Unlock()
		}
		creation := fmt.Sprintf(`{"metadata":{"name":"another","ownerReferences":[{"apiVersion":"v1",`+
			`"kind":"ConfigMap","name":"m0","uid":%q,"controller":true}]}}`, root.UID)
		got := a.ask(http.MethodPatch, "/api/v1/namespaces/default/secrets/another?fieldManager=m",
			string(types.ApplyYAMLPatchType), creation)
		assert.Equal(t, http.StatusOK, got.Code, "%s", got.Body)
		mu.Lock()
		defer mu.Unlock()
		assert.Contains(t, applied, `"labels":{"shard.bellwether.dev/r":"a"}`)
	})
}

func TestMarksThatAreCopiedAreNotCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 1)
		created := make(chan string, 1)
		a := join(t, server, "a", through(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
			if q.Method == http.MethodPost && path.Base(q.URL.Path) == "secrets" {
				data, err := io.ReadAll(q.Body)
				require.NoError(t, err)
				created <- string(data)
				q.Body = io.NopCloser(bytes.NewReader(data))
			}
			return next.RoundTrip(q)
		}))
		defer a.leave(t)
		settle()
		root := admin.stored("m0")
		require.NotEmpty(t, root.Annotations)
		annotations := map[string]string{"x": "y"}
		for key, value := range root.Annotations {
			annotations[key] = value
		}
		_, err := a.client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: "child", Annotations: annotations,
			Labels: map[string]string{api.ShardLabel("r"): "b", api.DrainLabel("r"): "", "x": "y"},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(root, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
			},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
		sent := <-created
		assert.Contains(t, sent, api.ShardLabel("r"), "it is stamped from the beginning")
		assert.NotContains(t, sent, api.DrainLabel("r"))
		stored, err := admin.CoreV1().Secrets("default").Get(t.Context(), "child", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, map[string]string{api.ShardLabel("r"): "a", "x": "y"}, stored.Labels)
		assert.Equal(t, map[string]string{"x": "y"}, stored.Annotations)
	})
}

// Each is about the copy that a cache has had, and the one before it may change that.
func TestSeveralWritesToOneObjectAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 1)
		a := join(t, server, "a", nil)
		defer a.leave(t)
		settle()
		var writing sync.WaitGroup
		for i := range 10 {
			writing.Go(func() {
				patch := fmt.Sprintf(`{"data":{"k%d":"v"}}`, i)
				got := a.ask(http.MethodPatch, "/api/v1/namespaces/default/configmaps/m0",
					"application/merge-patch+json", patch)
				assert.Equal(t, http.StatusOK, got.Code, "%s", got.Body)
			})
		}
		writing.Wait()
		assert.Len(t, admin.stored("m0").Data, 10)
	})
}

func TestOnlyWhatCanBeEditedIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _ := newServer(t, 1)
		asked := make(chan http.Header, 1)
		var asking atomic.Bool
		a := join(t, server, "a", through(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
			if q.Method == http.MethodGet && asking.Swap(false) {
				asked <- q.Header
			}
			return next.RoundTrip(q)
		}))
		defer a.leave(t)
		settle()
		asking.Store(true)
		r := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/configmaps/m0", nil)
		r.Header = http.Header{
			"Accept": {"text/csv, application/yaml"}, "Accept-Encoding": {"br"},
			"Authorization": {"Bearer of the program"},
		}
		w := httptest.NewRecorder()
		a.proxy.ServeHTTP(w, r)
		assert.Equal(t, http.StatusOK, w.Code)
		assert.NotContains(t, w.Body.String(), "bellwether.dev")
		header := <-asked
		assert.Equal(t, "application/json", header.Get("Accept"))
		assert.Empty(t, header.Get("Accept-Encoding"))
		assert.Empty(t, header.Get("Authorization"), "it is a token for the proxy")
	})
}

// Bodies that cannot be read are refused before anything is sent.
func TestWhatCannotBeReadIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 1)
		a := join(t, server, "a", nil)
		defer a.leave(t)
		settle()
		const object = "/api/v1/namespaces/default/configmaps/m0"
		large := `{"data":{"k":"` + strings.Repeat("x", 3<<20) + `"}}`
		for _, c := range []struct {
			method, path, contentType, body string
			code                            int
		}{
			{http.MethodPut, object, "application/json", "{", http.StatusBadRequest},
			{http.MethodPut, object, "text/plain", "{}", http.StatusBadRequest},
			{http.MethodPatch, object, "application/merge-patch+json", "[]", http.StatusBadRequest},
			{http.MethodPatch, object, "application/merge-patch+json", large, http.StatusRequestEntityTooLarge},
			{"PURGE", object, "", "", http.StatusMethodNotAllowed},
			{http.MethodDelete, "/api/v1/namespaces/default/x/../configmaps/m0", "", "", http.StatusMethodNotAllowed},
			{http.MethodDelete, "/api/v1/namespaces/default//configmaps/m0", "", "", http.StatusMethodNotAllowed},
		} {
			got := a.ask(c.method, c.path, c.contentType, c.body)
			assert.Equal(t, c.code, got.Code, "%s %s: %s", c.method, c.path, got.Body)
			assert.Contains(t, got.Body.String(), `"kind":"Status"`)
		}
		assert.Len(t, admin.owners(), 1)
		assert.Empty(t, admin.stored("m0").Data)
	})
}
