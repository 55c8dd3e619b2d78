package sharder

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

func fakes(t *testing.T) (*fake.Clientset, *metadatafake.FakeMetadataClient) {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	return fake.NewSimpleClientset(), metadatafake.NewSimpleMetadataClient(scheme)
}

func forbidden(action clienttesting.Action) (bool, runtime.Object, error) {
	return true, nil, refusal(action.GetVerb(), action.GetResource().GroupResource())
}

// refusal returns the error of an API server when a role is missing.
func refusal(verb string, resource schema.GroupResource) error {
	return apierrors.NewForbidden(resource, "",
		fmt.Errorf("User %q cannot %s resource %q", "u", verb, resource.Resource))
}

func testConfig() Config {
	return Config{Ring: testRing, Namespace: testNamespace, Resources: []api.Resource{{GVR: ringtest.ConfigMaps}}}
}

func TestMissingPermissionsOnTheObjectsAreErrorsAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, verb := range []string{"list", "get", "patch"} {
			kube, meta := fakes(t)
			meta.PrependReactor(verb, "configmaps", forbidden)
			s, err := New(kube, meta, ringtest.TestMapper(), testConfig())
			require.NoError(t, err)
			assert.ErrorContains(t, s.Run(t.Context()),
				`sharder: not allowed to `+verb+` configmaps: grant the verb "`+verb+
					`" on resource configmaps of API group "" by a ClusterRole`)
		}
		kube, meta := fakes(t)
		meta.PrependWatchReactor("configmaps", func(clienttesting.Action) (bool, watch.Interface, error) {
			return true, nil, refusal("watch", schema.GroupResource{Resource: "configmaps"})
		})
		c := testConfig()
		c.Resources[0].Namespaces = []string{"default"}
		s, err := New(kube, meta, ringtest.TestMapper(), c)
		require.NoError(t, err)
		assert.ErrorContains(t, s.Run(t.Context()),
			`grant the verb "watch" on resource configmaps of API group "" in namespace default`)
	})
}

func TestMissingPermissionsOnLeasesAndHistoryAreErrorsAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for resource, want := range map[string]string{
			"leases": `sharder: not allowed to list the shards' Leases in namespace ns: grant the verb "list" on ` +
				`resource leases of API group "coordination.k8s.io" in namespace ns`,
			"configmaps": `sharder: not allowed to get ConfigMap ns/r.ring.bellwether.dev, the ring's history: grant ` +
				`the verb "get" on resource configmaps of API group "" in namespace ns`,
		} {
			kube, meta := fakes(t)
			kube.PrependReactor("*", resource, forbidden)
			s, err := New(kube, meta, ringtest.TestMapper(), testConfig())
			require.NoError(t, err)
			assert.ErrorContains(t, s.Run(t.Context()), want)
		}
	})
}

func TestAHistoryThatMayNotBeWrittenEndsTheSharder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, meta := fakes(t)
		kube.PrependReactor("create", "configmaps", forbidden)
		s, err := New(kube, meta, ringtest.TestMapper(), testConfig())
		require.NoError(t, err)
		lease, err := shardlease.New(kube, shardlease.Config{Namespace: testNamespace, Ring: testRing, Identity: "a"})
		require.NoError(t, err)
		ctx, release := context.WithCancel(t.Context())
		released := make(chan error)
		go func() {
			released <- lease.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			})
		}()
		began := time.Now()
		assert.ErrorContains(t, s.Run(t.Context()),
			`sharder: not allowed to create ConfigMap ns/r.ring.bellwether.dev, the ring's history: grant the verb `+
				`"create" on resource configmaps of API group "" in namespace ns`)
		release()
		assert.NoError(t, <-released)
		assert.GreaterOrEqual(t, time.Since(began), 15*time.Second, "roles may still be on their way")
	})
}

func TestASharderWaitsForTheAPIServer(t *testing.T) {
	inCluster(t, func(_ *testing.T, k *cluster) {
		k.shard("a")
		k.create(3, "o")
		defer k.sharderWith(k.config(), apisim.Faults{Refuse: apisim.Always})()
		time.Sleep(time.Minute)
		k.connection.Inject(apisim.Faults{})
		time.Sleep(time.Minute)
		k.requirePlaced(3, "a")
	})
}

// What a proxy answers in the API server's place proves nothing, however long it does.
func TestASharderWaitsForAProxyToComeToItself(t *testing.T) {
	for name, of := range map[string]func(*http.Request) bool{
		"everything": apisim.Always,
		"reads":      func(r *http.Request) bool { return r.Method == http.MethodGet },
		"writes":     func(r *http.Request) bool { return r.Method != http.MethodGet },
	} {
		for i, odd := range apisim.Oddities {
			t.Run(fmt.Sprint(name, " ", i), func(t *testing.T) {
				inCluster(t, func(_ *testing.T, k *cluster) {
					fault := apisim.Faults{Odd: func(r *http.Request) *http.Response {
						if !of(r) {
							return nil
						}
						return odd(r)
					}}
					k.shard("a")
					k.create(30, "o")
					atFirst := fault
					if i <= 1 { // a 404 at the start says that a resource is not served
						atFirst = apisim.Faults{}
					}
					defer k.sharderWith(k.config(), atFirst)()
					time.Sleep(5 * time.Minute)
					k.connection.Inject(apisim.Faults{})
					time.Sleep(time.Minute)
					k.requirePlaced(30, "a")
					k.connection.Inject(fault)
					k.shard("b")
					time.Sleep(5 * time.Minute)
					k.connection.Inject(apisim.Faults{})
					time.Sleep(2 * time.Minute)
					k.requirePlaced(30, "a", "b")
				})
			})
		}
	}
}

func TestAResourceThatOnlyTheMapperKnowsIsAnErrorAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, meta := fakes(t)
		c := testConfig()
		c.Resources = []api.Resource{{GVR: ringtest.Widgets}}
		meta.PrependReactor("list", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewNotFound(ringtest.Widgets.GroupResource(), "")
		})
		s, err := New(kube, meta, ringtest.TestMapper(), c)
		require.NoError(t, err)
		assert.ErrorContains(t, s.Run(t.Context()),
			"the API server does not have example.com/v1, Resource=widgets: is its CustomResourceDefinition installed?")
	})
}

func TestAClientWithALowRateLimitIsReported(t *testing.T) {
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: "http://localhost"})
	require.NoError(t, err)
	_, meta := fakes(t)
	core, logs := observer.New(zap.WarnLevel)
	c := testConfig()
	c.Logger = zap.New(core)
	s, err := New(kube, meta, ringtest.TestMapper(), c)
	require.NoError(t, err)
	s.warnOfLimit()
	require.Equal(t, 1, logs.Len())
	assert.InDelta(t, 5, logs.All()[0].ContextMap()["qps"], 0)

	kube, err = kubernetes.NewForConfig(&rest.Config{Host: "http://localhost", QPS: -1})
	require.NoError(t, err)
	s.kube = kube
	s.warnOfLimit()
	assert.Equal(t, 1, logs.Len())
}

func TestRunEndsWithItsContextOnFakes(t *testing.T) {
	kube, meta := fakes(t)
	_, err := kube.CoordinationV1().Leases(testNamespace).Create(t.Context(),
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	s, err := New(kube, meta, ringtest.TestMapper(), testConfig())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	cancel()
	assert.NoError(t, <-ended)
	_, ok := s.Status()
	assert.False(t, ok)
}

// In one namespace a role is missing. Objects of the others get owners, and move with their children.
func TestANamespaceWithoutRightsDoesNotStopTheOthers(t *testing.T) {
	for name, of := range map[string]string{
		"of roots": "/namespaces/gone/configmaps", "of children": "/namespaces/gone/pods",
	} {
		for when, later := range map[string]time.Duration{"from the start": 0, "later": 5 * time.Second} {
			t.Run(name+" "+when, func(t *testing.T) {
				inCluster(t, func(_ *testing.T, k *cluster) {
					k.shard("a")
					fault := apisim.Faults{Odd: func(r *http.Request) *http.Response {
						if !strings.Contains(r.URL.Path, of) {
							return nil
						}
						return answer(r, refusal("list", schema.GroupResource{Resource: "x"}))
					}}
					c := k.familyConfig()
					c.Resources[0].Namespaces = []string{"default", "gone"}
					defer k.sharder(c)()
					time.Sleep(later)
					k.connection.Inject(fault)
					k.create(12, "o")
					time.Sleep(time.Minute)
					k.requirePlaced(12, "a")
					k.bear(1, false)
					time.Sleep(2 * time.Minute)
					k.requireFamilies(1)
					k.shard("b")
					time.Sleep(2 * time.Minute)
					k.requirePlaced(12, "a", "b")
					k.requireFamilies(1)
				})
			})
		}
	}
}
