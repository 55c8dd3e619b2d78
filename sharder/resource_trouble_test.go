package sharder

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// A resource that cannot be listed stops no other resource, as when its conversion webhook is down.
// The objects of the others find their shards, also when shards come and another sharder takes
// over. When the trouble is over, the objects of the first resource find their shards, too.
func TestAResourceThatCannotBeListedStopsNoOther(t *testing.T) {
	for name, broken := range map[string]string{"the first": "widgets", "the last": "nodes"} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				c := k.config()
				c.Resources = []api.Resource{{GVR: ringtest.Widgets}, {GVR: ringtest.ConfigMaps}, {GVR: ringtest.Nodes}}
				user, err := dynamic.NewForConfig(k.server.Client("user").Config())
				require.NoError(t, err)
				k.shard("a")
				k.shard("b")
				time.Sleep(time.Second)
				stop := k.sharder(c)
				defer func() { stop() }()
				k.create(40, "o")
				create := func(name string) {
					_, err = user.Resource(ringtest.Widgets).Namespace("default").Create(t.Context(),
						&unstructured.Unstructured{Object: map[string]any{
							"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name},
						}}, metav1.CreateOptions{})
					require.NoError(t, err)
					_, err = user.Resource(ringtest.Nodes).Create(t.Context(),
						&unstructured.Unstructured{Object: map[string]any{
							"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name},
						}}, metav1.CreateOptions{})
					require.NoError(t, err)
				}
				create("before")
				time.Sleep(20 * time.Second)
				k.requirePlaced(40, "a", "b")

				unlisted := func(q *http.Request) bool {
					return q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/"+broken)
				}
				k.astray.Store(&unlisted)
				k.server.Restart(0)
				create("during")
				k.shard("c")
				time.Sleep(2 * time.Minute)
				k.requirePlaced(40, "a", "b", "c")
				stop()
				stop = k.sharder(c)
				time.Sleep(time.Second)
				k.create(10, "p")
				k.shard("d")
				time.Sleep(2 * time.Minute)
				k.requirePlaced(50, "a", "b", "c", "d")
				assert.NotContains(t, k.told(), "settled [a b c d]", "it is not known where all objects are")

				k.astray.Store(nil)
				time.Sleep(5 * time.Minute)
				for gvr, client := range map[schema.GroupVersionResource]dynamic.ResourceInterface{
					ringtest.Widgets: user.Resource(ringtest.Widgets).Namespace("default"),
					ringtest.Nodes:   user.Resource(ringtest.Nodes),
				} {
					list, err := client.List(t.Context(), metav1.ListOptions{})
					require.NoError(t, err)
					require.Len(t, list.Items, 2)
					for _, o := range list.Items {
						_, ok := protocol.KeysOf(testRing).Of(gvr.GroupResource()).RecordOf(&o)
						assert.True(t, ok, "%s %s", gvr.Resource, o.GetName())
					}
				}
			})
		})
	}
}

// A resource that the API server does not serve stops no other resource, as when its
// CustomResourceDefinition is not there yet. Its objects are distributed when the API server serves
// it. Until then the sharder forgets nothing, because objects of the resource may exist.
func TestAResourceThatIsNotServedIsPickedUpLater(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.GCPeriod = time.Minute
		c.Resources = []api.Resource{
			{GVR: ringtest.ConfigMaps},
			{GVR: ringtest.Widgets},
			{GVR: ringtest.Nodes, Children: []schema.GroupVersionResource{widgetParts}},
		}
		var mu sync.Mutex
		var said []string
		c.Hooks.OnResource = func(s ResourceState) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, fmt.Sprint(s.Verb, " ", s.GVR.Resource, " ", s.Err == nil))
		}
		k.shard("a")
		b := k.shard("b")
		time.Sleep(time.Second)
		kube, objects := k.clients(k.server.Client("sharder"))
		mapper := &partialMapper{RESTMapper: ringtest.TestMapper()}
		mapper.unknown.Store(&ringtest.Widgets)
		s, err := New(kube, objects, mapper, c)
		require.NoError(t, err)
		stop := k.begin(func(ctx context.Context) { assert.NoError(t, s.Run(ctx)) })
		defer stop()
		k.create(40, "o")
		k.createWidget("default", "early", nil)
		time.Sleep(time.Minute)
		k.requirePlaced(40, "a", "b")
		b.release()
		time.Sleep(10 * time.Minute)
		k.requirePlaced(40, "a")
		status, _ := s.Status()
		assert.Equal(t, []schema.GroupVersionResource{ringtest.Nodes, ringtest.Widgets}, status.Troubled)
		assert.NotContains(t, k.told(), "collected b", "there may be objects of it")
		assert.Greater(t, len(k.historyNow().Memberships), 1)

		mapper.unknown.Store(nil)
		k.createWidget("default", "late", nil)
		time.Sleep(2 * time.Minute)
		list, err := objects.Resource(ringtest.Widgets).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, list.Items, 2)
		for _, o := range list.Items {
			assert.Equal(t, "a", k.keys.ShardOf(&o), o.Name)
		}
		status, _ = s.Status()
		assert.Equal(t, []schema.GroupVersionResource{ringtest.Nodes}, status.Troubled)
		mu.Lock()
		defer mu.Unlock()
		assert.Contains(t, said, "serve widgets false")
		assert.Contains(t, said, "serve widgets true")
	})
}

// widgetParts are never served.
var widgetParts = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgetparts"}

// partialMapper does not know one resource.
type partialMapper struct {
	meta.RESTMapper
	unknown atomic.Pointer[schema.GroupVersionResource]
}

// KindFor implements meta.RESTMapper.
func (m *partialMapper) KindFor(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	if unknown := m.unknown.Load(); unknown != nil && r == *unknown {
		return schema.GroupVersionKind{}, &meta.NoResourceMatchError{PartialResource: r}
	}
	return m.RESTMapper.KindFor(r)
}

// A resource takes the place of another, as when its CustomResourceDefinition is installed under
// another name. The sharder begins to distribute its objects, though it serves no more resources
// than before.
func TestAResourceThatTakesThePlaceOfAnotherIsPickedUp(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.Resources = []api.Resource{{GVR: ringtest.ConfigMaps}, {GVR: ringtest.Widgets}}
		k.shard("a")
		time.Sleep(time.Second)
		kube, objects := k.clients(k.server.Client("sharder"))
		mapper := &partialMapper{RESTMapper: ringtest.TestMapper()}
		mapper.unknown.Store(&ringtest.ConfigMaps)
		s, err := New(kube, objects, mapper, c)
		require.NoError(t, err)
		defer k.begin(func(ctx context.Context) { assert.NoError(t, s.Run(ctx)) })()
		time.Sleep(10 * time.Second)
		k.create(3, "o")
		mapper.unknown.Store(&ringtest.Widgets)
		time.Sleep(2 * time.Minute)
		k.requirePlaced(3, "a")
		status, _ := s.Status()
		assert.Equal(t, []schema.GroupVersionResource{ringtest.Widgets}, status.Troubled)
	})
}

// A lost history is recalled although one resource cannot be listed and no object of the other has
// a record. The sharder does not stop, and does not take the ring for a new one.
func TestALostHistoryIsRecalledWhereAResourceCannotBeListed(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.Resources = []api.Resource{{GVR: ringtest.Widgets}, {GVR: ringtest.ConfigMaps}}
		stop, shards := k.settledWith(20, c, "a", "b")
		stop()
		require.NoError(t,
			k.kube.CoreV1().ConfigMaps(testNamespace).Delete(t.Context(), HistoryName(testRing),
				metav1.DeleteOptions{}))
		for _, o := range k.objects() {
			k.edit(o.Name, `{"metadata":{"labels":null,"annotations":null}}`)
		}
		unlisted := func(q *http.Request) bool {
			return q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/widgets")
		}
		k.astray.Store(&unlisted)
		defer k.sharder(c)()
		time.Sleep(2 * time.Minute)
		k.requirePlaced(20, "a", "b")
		assert.EqualValues(t, 20, shards[0].acks.Load()+shards[1].acks.Load(),
			"every shard that may be at work on them was asked")
	})
}

// A new object does not wait for the proof that a shard is gone. While a ring is not settled, any
// former member may own the object. The sharder proves which of them are gone before the object
// comes.
func TestANewObjectDoesNotWaitForTheProofThatAShardIsGone(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.Resources = []api.Resource{{GVR: ringtest.Widgets}, {GVR: ringtest.ConfigMaps}}
		stop, shards := k.settledWith(40, c, "a", "b")
		defer func() { stop() }()
		unlisted := func(q *http.Request) bool {
			return q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/widgets")
		}
		k.astray.Store(&unlisted)
		k.server.Restart(0)
		k.shard("c")
		time.Sleep(time.Minute)
		shards[1].kill()
		require.NoError(t,
			k.kube.CoordinationV1().Leases(testNamespace).Delete(t.Context(), "b", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		stop()
		require.NoError(t,
			k.kube.CoordinationV1().Leases(testNamespace).Delete(t.Context(), "b", metav1.DeleteOptions{}))
		stop = k.sharder(c)
		time.Sleep(time.Minute)
		k.create(40, "p")
		time.Sleep(time.Second)
		k.requirePlaced(80, "a", "c")
	})
}

// A Lease that was collected is not created again. The sharder creates the Lease of an invented
// shard to prove that no shard holds it, and deletes it once.
func TestALeaseThatWasCollectedIsNotCreatedAgain(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.GCPeriod, c.ScanInterval = time.Minute, time.Minute
		stop, _ := k.settledWith(20, c, "a", "b")
		defer stop()
		o := k.objects()[0]
		r, _ := k.keys.RecordOf(&o)
		r.Shard, r.LeaseUID, r.Epoch = "ghost", "none", 1
		_, err := k.meta.Resource(ringtest.ConfigMaps).Namespace("default").Patch(t.Context(), o.Name,
			types.MergePatchType,
			k.keys.MergePatch(o.UID, o.ResourceVersion, "", false, &r), metav1.PatchOptions{})
		require.NoError(t, err)
		time.Sleep(30 * time.Minute)
		k.requirePlaced(20, "a", "b")
		told := slices.DeleteFunc(k.told(), func(s string) bool { return s != "taken ghost" && s != "collected ghost" })
		assert.Equal(t, []string{"taken ghost", "collected ghost"}, told)
	})
}

// The trouble of a session that did not open is over when the next one has opened.
func TestTroubleAtTheStartIsOver(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		var mu sync.Mutex
		var said []error
		c.Hooks.OnResource = func(s ResourceState) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, s.Err)
		}
		k.shard("a")
		time.Sleep(time.Second)
		defer k.sharderWith(c, apisim.Faults{Odd: func(q *http.Request) *http.Response {
			if q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/configmaps") {
				return apisim.Oddities[3](q)
			}
			return nil
		}})()
		time.Sleep(5 * time.Second)
		k.connection.Inject(apisim.Faults{})
		k.create(10, "o")
		time.Sleep(time.Minute)
		k.requirePlaced(10, "a")
		mu.Lock()
		defer mu.Unlock()
		require.NotEmpty(t, said)
		assert.Error(t, said[0])
		assert.NoError(t, said[len(said)-1])
	})
}

// A sharder may start before the definition of its only resource is there.
func TestASharderWaitsForTheDefinitionOfItsOnlyResource(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.Resources = []api.Resource{{GVR: ringtest.Widgets}}
		logs := warnings(&c)
		var reported atomic.Int32
		c.Hooks.OnResource = func(ResourceState) { reported.Add(1) }
		k.shard("a")
		time.Sleep(time.Second)
		kube, objects := k.clients(k.server.Client("sharder"))
		mapper := &partialMapper{RESTMapper: ringtest.TestMapper()}
		s, err := New(kube, objects, mapper, c)
		require.NoError(t, err)
		_, err = s.Plan(t.Context())
		require.NoError(t, err)
		mapper.unknown.Store(&ringtest.Widgets)
		k.begin(func(ctx context.Context) { assert.NoError(t, s.Run(ctx)) })
		time.Sleep(time.Hour)
		status, ok := s.Status()
		require.True(t, ok)
		assert.Equal(t, []schema.GroupVersionResource{ringtest.Widgets}, status.Troubled)
		assert.NotEmpty(t, logs.FilterMessageSnippet("objects of some resources are not distributed").All())
		assert.Less(t, logs.Len(), 10, "%v", logs.All())
		assert.EqualValues(t, 1, reported.Load(), "a plan made before Run reports nothing, and silences nothing")

		mapper.unknown.Store(nil)
		k.createWidget("default", "x", nil)
		time.Sleep(2 * time.Minute)
		list, err := objects.Resource(ringtest.Widgets).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, list.Items, 1)
		assert.Equal(t, "a", k.keys.ShardOf(&list.Items[0]))
	})
}
