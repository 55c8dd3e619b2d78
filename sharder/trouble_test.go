package sharder

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Of two resources one cannot be listed, as when its conversion webhook is down. The objects of the other one find their shards, also when shards
// come and go and another sharder takes over; and when the trouble is over so do those of the first.
func TestAResourceThatCannotBeListedStopsNoOther(t *testing.T) {
	for name, broken := range map[string]string{"the first": "widgets", "the last": "nodes"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				c := w.config()
				c.Resources = []Resource{{GVR: widgets}, {GVR: configMaps}, {GVR: nodes}}
				user, err := dynamic.NewForConfig(w.server.Client("user").Config())
				require.NoError(t, err)
				w.shard("a")
				w.shard("b")
				time.Sleep(time.Second)
				stop := w.sharder(c)
				defer func() { stop() }()
				w.create(40, "o")
				create := func(name string) {
					_, err = user.Resource(widgets).Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
						"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name},
					}}, metav1.CreateOptions{})
					require.NoError(t, err)
					_, err = user.Resource(nodes).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
						"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name},
					}}, metav1.CreateOptions{})
					require.NoError(t, err)
				}
				create("before")
				time.Sleep(20 * time.Second)
				w.requirePlaced(40, "a", "b")

				unlisted := func(q *http.Request) bool {
					return q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/"+broken)
				}
				w.astray.Store(&unlisted)
				w.server.Restart(0)
				create("during")
				w.shard("c")
				time.Sleep(2 * time.Minute)
				w.requirePlaced(40, "a", "b", "c")
				stop()
				stop = w.sharder(c)
				time.Sleep(time.Second)
				w.create(10, "p")
				w.shard("d")
				time.Sleep(2 * time.Minute)
				w.requirePlaced(50, "a", "b", "c", "d")
				assert.NotContains(t, w.told(), "settled [a b c d]", "it is not known where all objects are")

				w.astray.Store(nil)
				time.Sleep(5 * time.Minute)
				for gvr, client := range map[schema.GroupVersionResource]dynamic.ResourceInterface{widgets: user.Resource(widgets).Namespace("default"), nodes: user.Resource(nodes)} {
					list, err := client.List(t.Context(), metav1.ListOptions{})
					require.NoError(t, err)
					require.Len(t, list.Items, 2)
					for _, o := range list.Items {
						_, ok := namesOf(testRing).of(gvr.GroupResource()).recordOf(&o)
						assert.True(t, ok, "%s %s", gvr.Resource, o.GetName())
					}
				}
			})
		})
	}
}
