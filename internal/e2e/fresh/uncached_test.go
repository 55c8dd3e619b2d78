// Package fresh_test has caches of each kind of resource that kube-apiserver serves without a watch
// cache.
package fresh_test

import (
	"context"
	"net"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/fresh"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	patience = 30 * time.Second // for what takes 4 s
	lag      = 5 * time.Second
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	eventsV1   = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
	widgets    = schema.GroupVersionResource{Group: "aggregated.example.com", Version: "v1", Resource: "widgets"}
)

// quiet is a resource that was not written since something else was.
type quiet struct {
	schema.GroupVersionResource
	kind    string
	content func(namespace string) map[string]any // nil: nothing
	cached  bool
	// other writes something else, in the database of the resource.
	other func(t *testing.T, namespace string)
}

// TestAQuietResourceWithoutAWatchCacheIsFresh waits for resources whose watches get no bookmarks,
// while another resource was the last to be written in its database.
func TestAQuietResourceWithoutAWatchCacheIsFresh(t *testing.T) {
	t.Parallel()
	cp := e2e.Start(t, e2e.Options{APIServer: []string{"--watch-cache-sizes=configmaps#0"}})
	client, err := dynamic.NewForConfig(cp.Admin())
	require.NoError(t, err)
	etcd := func(t *testing.T, namespace string) {
		t.Helper()
		create(t, client, schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, "ServiceAccount",
			namespace, "", nil)
	}
	core := schema.GroupVersion{Version: "v1"}
	for name, q := range map[string]quiet{
		"its size is 0":               {configMaps, "ConfigMap", nil, false, etcd},
		"events":                      {core.WithResource("events"), "Event", coreEvent, false, etcd},
		"events of events.k8s.io":     {eventsV1, "Event", event, false, etcd},
		"an aggregated API":           {widgets, "Widget", nil, false, aggregate(t, client)},
		"a resource that has a cache": {core.WithResource("secrets"), "Secret", nil, true, etcd},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace, err := cp.Namespace(t.Context(), "fresh")
			require.NoError(t, err)
			q.requireFresh(t, cp, client, namespace)
		})
	}
}

func coreEvent(namespace string) map[string]any {
	return map[string]any{"involvedObject": map[string]any{"kind": "Pod", "name": "p", "namespace": namespace}}
}

func event(namespace string) map[string]any {
	return map[string]any{
		"eventTime": time.Now().UTC().Format(metav1.RFC3339Micro), "reportingController": "example.com/c",
		"reportingInstance": "i", "action": "Test", "reason": "Test", "type": "Normal",
		"regarding": map[string]any{"kind": "Pod", "name": "p", "namespace": namespace},
	}
}

func (q quiet) requireFresh(t *testing.T, cp *e2e.ControlPlane, client dynamic.Interface, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := client.Resource(q.GroupVersionResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		assert.NoError(c, err)
	}, patience, 100*time.Millisecond, "an aggregated API takes a moment")
	create(t, client, q.GroupVersionResource, q.kind, namespace, "first", q.content)

	var late atomic.Int64
	config := cp.Admin()
	config.Wrap(e2e.LateWatches(func() time.Duration { return time.Duration(late.Load()) }))
	watching, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	source := &pages{ListerWatcherWithContext: cache.ToListerWatcherWithContext(
		fresh.Source(watching.Resource(q.GroupVersionResource).Namespace(namespace)))}
	informer := cache.NewSharedIndexInformer(source.listWatch(), &unstructured.Unstructured{}, 0, cache.Indexers{})
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	defer running.Wait()
	defer cancel()
	require.True(t, cache.WaitForCacheSync(ctx.Done(), informer.HasSynced))
	source.asked.Store(0)

	warm := fresh.Cache{Resource: q.GroupResource(), Informer: informer, Source: source.listWatch()}
	q.other(t, namespace)
	begin := time.Now()
	bounded, stop := context.WithTimeout(ctx, patience)
	defer stop()
	require.NoError(t, fresh.Wait(bounded, warm))
	t.Logf("fresh after %v, with %d lists", time.Since(begin).Round(time.Millisecond), source.asked.Load())
	assert.Equal(t, !q.cached, source.asked.Load() > 0, "a bookmark is the proof if there is one, and a list if not")

	late.Store(int64(lag))
	create(t, client, q.GroupVersionResource, q.kind, namespace, "second", q.content)
	require.NoError(t, client.Resource(q.GroupVersionResource).Namespace(namespace).Delete(ctx, "first",
		metav1.DeleteOptions{}))
	q.other(t, namespace)
	require.NoError(t, fresh.Wait(ctx, warm))
	assert.Equal(t, []string{namespace + "/second"}, informer.GetStore().ListKeys())
}

// pages counts the lists of more than one object.
type pages struct {
	cache.ListerWatcherWithContext
	asked atomic.Int64
}

func (p *pages) listWatch() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.Limit != 1 {
				p.asked.Add(1)
			}
			return p.ListWithContext(ctx, o)
		},
		WatchFuncWithContext: p.WatchWithContext,
	}
}

func create(
	t *testing.T, client dynamic.Interface, gvr schema.GroupVersionResource, kind, namespace, name string,
	content func(namespace string) map[string]any,
) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if content != nil {
		o.Object = content(namespace)
	}
	o.SetGroupVersionKind(gvr.GroupVersion().WithKind(kind))
	o.SetNamespace(namespace)
	if o.SetName(name); name == "" {
		o.SetGenerateName("other-")
	}
	resource := dynamic.ResourceInterface(client.Resource(gvr))
	if namespace != "" {
		resource = client.Resource(gvr).Namespace(namespace)
	}
	_, err := resource.Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
}

// aggregate has kube-apiserver pass requests for widgets to a server with a database of its own. It
// returns a function that writes something else there.
func aggregate(t *testing.T, client dynamic.Interface) func(*testing.T, string) {
	t.Helper()
	server := apisim.NewServer(apisim.Resource{
		GroupVersionResource: widgets, Kind: "Widget", Namespaced: true, Uncached: true,
	})
	extension := httptest.NewTLSServer(server.Handler())
	t.Cleanup(func() {
		extension.CloseClientConnections()
		extension.Close()
	})
	host, port, err := net.SplitHostPort(extension.Listener.Addr().String())
	require.NoError(t, err)
	number, err := strconv.ParseInt(port, 10, 64)
	require.NoError(t, err)
	create(t, client, schema.GroupVersionResource{Version: "v1", Resource: "services"}, "Service", "default",
		"extension", func(string) map[string]any {
			return map[string]any{"spec": map[string]any{"type": "ExternalName", "externalName": host}}
		})
	create(t, client,
		schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
		"APIService", "", widgets.Version+"."+widgets.Group, func(string) map[string]any {
			return map[string]any{"spec": map[string]any{
				"group": widgets.Group, "version": widgets.Version, "insecureSkipTLSVerify": true,
				"groupPriorityMinimum": int64(100), "versionPriority": int64(100),
				"service": map[string]any{"namespace": "default", "name": "extension", "port": number},
			}}
		})
	beside, err := dynamic.NewForConfig(server.Client("other").Config())
	require.NoError(t, err)
	return func(t *testing.T, namespace string) {
		t.Helper()
		create(t, beside, configMaps, "ConfigMap", namespace, "", nil)
	}
}
