package endpoints_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	first  = "10.1.0.1"
	second = "10.1.0.2"
	third  = "10.1.0.3"
)

// inBoth runs a test with each store.
func inBoth(t *testing.T, test func(t *testing.T, args ...string)) {
	t.Helper()
	t.Parallel()
	for name, args := range map[string][]string{"ConfigMap": nil, "Leases": {"-leases"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e2e.Repeat(t, func(t *testing.T) { test(t, args...) })
		})
	}
}

func TestInstancesComeAndGo(t *testing.T) {
	inBoth(t, func(t *testing.T, args ...string) {
		f := newCluster(t, shared, args...)
		a, b, c := f.start("a", first), f.start("b", second), f.start("c", third)
		f.requirePublished(first, second, third)

		since := f.seen.Mark()
		require.NoError(t, b.Kill())
		killed := time.Now()
		f.requirePublished(first, third)
		assert.GreaterOrEqual(t, time.Since(killed), expiry-3*interval, "taken for dead too soon")
		f.assertAlways(since(), first, third)

		require.NoError(t, b.Restart())
		f.requirePublished(first, second, third)
		f.requireEnd(c)
		assert.Equal(t, []string{first, second}, f.listed(), "gone when it has ended")

		f.requireEnd(b) // down to one
		assert.Equal(t, []string{first}, f.listed())
		// or it would be taken for the three to come that the watch has not shown their end yet
		f.requirePublished(first)
		require.NoError(t, b.Restart()) // and up to three
		require.NoError(t, c.Restart())
		f.requirePublished(first, second, third)
		f.assertAlways(since(), first)

		for _, p := range []*e2e.Process{a, b, c} {
			f.requireEnd(p)
		}
		assert.Empty(t, f.listed())
		for _, p := range []*e2e.Process{a, b, c} {
			assert.NotContains(t, f.log(p), "not allowed", "what the documentation says is not enough")
		}
	})
}

func TestStoppedInstanceComesBack(t *testing.T) {
	inBoth(t, func(t *testing.T, args ...string) {
		c := newCluster(t, shared, args...)
		c.start("a", first)
		b := c.start("b", second)
		c.requirePublished(first, second)
		since := c.seen.Mark()
		require.NoError(t, b.Pause())
		c.requirePublished(first)
		require.NoError(t, b.Resume())
		c.requirePublished(first, second)
		c.assertAlways(since(), first)
	})
}

func requireReady(t *testing.T, cp *e2e.ControlPlane) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, cp.Ready(ctx))
}

// TestAPIServerOutageExpiresNoInstance has an outage that is longer than it takes to expire.
func TestAPIServerOutageExpiresNoInstance(t *testing.T) {
	t.Parallel()
	cp := e2e.Start(t, e2e.Options{})
	clusters := []*cluster{newCluster(t, cp), newCluster(t, cp, "-leases")}
	var all []*e2e.Process
	for _, c := range clusters {
		all = append(all, c.start("a", first), c.start("b", second), c.start("c", third))
	}
	for _, c := range clusters {
		c.requirePublished(first, second, third)
	}
	since := []func() [][]string{clusters[0].seen.Mark(), clusters[1].seen.Mark()}
	require.NoError(t, cp.APIServer.Restart())
	requireReady(t, cp)
	require.NoError(t, cp.APIServer.Kill())
	away := time.NewTimer(expiry + 3*interval)
	<-away.C
	require.NoError(t, cp.APIServer.Restart())
	requireReady(t, cp)
	for i, c := range clusters {
		resource := []string{"configmaps", "leases"}[i]
		before := c.heartbeats(resource)
		require.Eventually(t, func() bool { return c.heartbeats(resource) > before+3*12 }, patience, 10*poll,
			"no heartbeats")
		c.assertAlways(since[i](), first, second, third)
		assert.Equal(t, []string{first, second, third}, c.listed())
	}
	for _, p := range all {
		content := clusters[0].log(p)
		assert.NotContains(t, content, "removed an instance")
	}
}

func TestExpireDurationIsSetAtRunTime(t *testing.T) {
	inBoth(t, func(t *testing.T, args ...string) {
		c := newCluster(t, shared, append(args, "-settings", "settings", "-expire-after", "1h", "-interval", "2s")...)
		a, b := c.start("a", first), c.start("b", second)
		c.requirePublished(first, second)
		c.requireLog(a, "cannot use the settings, keeping the last expire-duration")
		since := c.seen.Mark()
		c.createConfigMap("settings", map[string]string{"expire-duration": "15s"})
		c.requireLog(a, `expiry changed	{"expire-duration": "15s"}`)
		c.patchData("settings", `{"expire-duration":"garbage"}`)
		c.requireLog(a, `expire-duration: must be a duration such as 1m (got \"garbage\")`)
		c.patchData("settings", `{"expire-duration":null}`)
		c.requireLog(a, "it has no key expire-duration")
		c.requireLog(b, "it has no key expire-duration")
		c.assertAlways(since(), first, second)
		require.NoError(t, b.Kill()) // in an hour, or 15 s
		c.requirePublished(first)
	})
}

func TestDualStackAndTwoPortsOnOneAddress(t *testing.T) {
	inBoth(t, func(t *testing.T, args ...string) {
		c := newCluster(t, shared, append(args, "-publish-endpoints")...)
		both := []string{"-ports", "https:443,metrics:9090"}
		c.start("a", first+",2001:db8::1", both...)
		c.start("b", second+",2001:db8::2", both...)
		other := c.start("c", second, "-ports", "https:8443")
		want := []string{
			first, first + ":9090/metrics", second, second + ":9090/metrics", second + ":8443/https",
			"2001:db8::1", "[2001:db8::1]:9090/metrics", "2001:db8::2", "[2001:db8::2]:9090/metrics",
		}
		c.requirePublished(want...)
		store := "configmaps"
		if len(args) > 0 {
			store = "leases"
		}
		requireBeats := func() {
			beats := c.heartbeats(store)
			require.Eventually(t, func() bool { return c.heartbeats(store) > beats+15 }, patience, 10*poll,
				"no heartbeats")
		}
		requireBeats() // the audit log and rounds that had begun before are behind
		before := c.heartbeats("endpointslices")
		requireBeats()
		assert.Equal(t, before, c.heartbeats("endpointslices"), "no instance fights for it")
		c.requireEnd(other)
		c.requirePublished(slices.DeleteFunc(want,
			func(e string) bool { return strings.HasSuffix(e, ":8443/https") })...)
	})
}

// TestRestartWithAnotherPort leaves two ports of one address published if another Pod is behind the
// second one, and one if it is the same.
func TestRestartWithAnotherPort(t *testing.T) {
	inBoth(t, func(t *testing.T, args ...string) {
		c := newCluster(t, shared, append(args, "-expire-after", "1h")...)
		a := c.start("a", first, "-incarnation", "pod-a")
		c.start("b", first, "-incarnation", "pod-b", "-ports", "https:8080")
		c.requirePublished(first, first+":8080/https")
		require.NoError(t, a.Kill())
		c.start("c", first, "-incarnation", "pod-a", "-ports", "https:8443")
		c.requirePublished(first+":8080/https", first+":8443/https") // it would expire in an hour
	})
}

// TestNoMirroredDuplicates has the real controller mirror one Endpoints object, which is not
// marked, and not that of instances.
func TestNoMirroredDuplicates(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared, "-publish-endpoints")
	c.start("a", first)
	c.requirePublished(first)
	c.start("b", second)
	c.requirePublished(first, second)
	mirrored := func(namespace string) int {
		list, err := c.client.DiscoveryV1().EndpointSlices(namespace).List(t.Context(), metav1.ListOptions{
			LabelSelector: discoveryv1.LabelManagedBy + "=endpointslicemirroring-controller.k8s.io",
		})
		require.NoError(t, err)
		return len(list.Items)
	}
	control := newCluster(t, shared)
	_, err := c.client.CoreV1().Endpoints(control.namespace).Create(t.Context(),
		&corev1.Endpoints{ //nolint:staticcheck // the deprecated kind is what this is about
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Subsets: []corev1.EndpointSubset{{ //nolint:staticcheck // see above
				Addresses: []corev1.EndpointAddress{{IP: "10.9.9.9"}},
				Ports:     []corev1.EndpointPort{{Name: "https", Port: 443}},
			}},
		}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return mirrored(control.namespace) == 1 }, patience, poll,
		"nothing is mirrored at all")
	assert.Zero(t, mirrored(c.namespace))
	require.Eventually(t, func() bool { // they are written after the slices
		e, err := c.client.CoreV1().Endpoints(c.namespace).Get(t.Context(), "web", metav1.GetOptions{})
		require.NoError(t, err)
		return len(e.Subsets) == 1 && len(e.Subsets[0].Addresses) == 2
	}, patience, poll, "not both are in the Endpoints")
	assert.Zero(t, mirrored(c.namespace))
}

func TestForeignSlicesAreLeftAlone(t *testing.T) {
	inBoth(t, func(t *testing.T, args ...string) {
		c := newCluster(t, shared, args...)
		foreign, err := c.client.DiscoveryV1().EndpointSlices(c.namespace).Create(t.Context(),
			&discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Name: "web-ipv4-other", Labels: map[string]string{
					discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "somebody.example.com",
				}},
				AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}},
			}, metav1.CreateOptions{})
		require.NoError(t, err)
		a, b := c.start("a", first), c.start("b", second)
		c.requirePublished(first, second)
		c.requireEnd(a)
		c.requireEnd(b)
		after, err := c.client.DiscoveryV1().EndpointSlices(c.namespace).Get(t.Context(), foreign.Name,
			metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, foreign.ResourceVersion, after.ResourceVersion)
	})
}

func TestSlicesGoWithTheirService(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared)
	a := c.start("a", first)
	c.requirePublished(first)
	require.NoError(t, c.client.CoreV1().Services(c.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	c.requirePublished()
	c.requireLog(a, "the Service does not exist")
	c.requireEnd(a)
}

// TestInstancesThatStartTogetherLoseNothing is about the first two of a Service, which find nothing
// to add to.
func TestInstancesThatStartTogetherLoseNothing(t *testing.T) {
	for name, store := range map[string]endpoints.Store{
		"ConfigMap": endpoints.ConfigMapStore{},
		"Leases":    endpoints.LeaseStore{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace, err := shared.Namespace(t.Context(), "together")
			require.NoError(t, err)
			client, err := kubernetes.NewForConfig(shared.Admin())
			require.NoError(t, err)
			for n := range 100 {
				service := fmt.Sprintf("web-%d", n)
				_, err := client.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Name: service},
					Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}, ClusterIP: "None"},
				}, metav1.CreateOptions{})
				require.NoError(t, err)
				var both sync.WaitGroup
				for _, address := range []string{first, second} {
					r, err := endpoints.New(client, endpoints.Config{
						Namespace: namespace, Service: service, Store: store,
						Addresses: []netip.Addr{netip.MustParseAddr(address)}, Ports: []endpoints.Port{{Number: 443}},
					})
					require.NoError(t, err)
					both.Go(func() { assert.NoError(t, r.ReconcileOnce(t.Context())) })
				}
				both.Wait()
				list, err := client.DiscoveryV1().EndpointSlices(namespace).List(t.Context(),
					metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
				require.NoError(t, err)
				require.Len(t, list.Items, 1)
				require.Len(t, list.Items[0].Endpoints, 2)
			}
		})
	}
}

// TestThousandsOfTheDeadAreRemoved is about more of them than the API server lets one request
// remove.
func TestThousandsOfTheDeadAreRemoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared)
	dead := map[string]string{}
	for n := range 6000 {
		key := fmt.Sprintf("ip-10-2-%d-%d-443", n/250, n%250)
		dead[key] = `{"name":"https","port":443,"protocol":"TCP","creationTimestamp":"2026-11-21T10:00:00Z",` +
			`"updateTimestamp":"2026-11-21T10:07:30Z"}`
	}
	c.createConfigMap("web-endpoints", dead)
	// An interval is how long a round may take, which reads all of them several times.
	begin := time.Now()
	for _, value := range dead {
		var port endpoints.Port
		require.NoError(t, json.Unmarshal([]byte(value), &port))
		require.Empty(t, validation.IsDNS1123Label(port.Name))
	}
	interval := max(6*time.Second, 20*time.Since(begin)).Round(time.Second)
	a := c.start("a", first, "-interval", interval.String(), "-expire-after", (3 * interval).String())
	c.requirePublishedWithin(8*interval+patience, first)
	assert.Equal(t, 6000, strings.Count(c.log(a), "removed expired instance"))
}

func TestDeadInstanceWhoseLeaseIsKeptStaysRemoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared, "-leases")
	c.start("a", first)
	b := c.start("b", second)
	c.requirePublished(first, second)
	leases := c.client.CoordinationV1().Leases(c.namespace)
	name := c.namespace + ".web.ip-10-1-0-2-443"
	keep := func(finalizers string) {
		_, err := leases.Patch(t.Context(), name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	keep(`["example.org/keep"]`)
	require.NoError(t, b.Kill())
	c.requirePublished(first)
	since, beats := c.seen.Mark(), c.heartbeats("leases")
	require.Eventually(t, func() bool { return c.heartbeats("leases") > beats+int(2*expiry/interval) }, patience,
		10*poll)
	for _, published := range since() {
		assert.Equal(t, []string{first}, published)
	}
	l, err := leases.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotNil(t, l.DeletionTimestamp)

	since = c.seen.Mark()
	require.NoError(t, b.Restart()) // and refreshes what is being deleted
	c.requirePublished(first, second)
	keep("null")
	require.Eventually(t, func() bool {
		next, err := leases.Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && next.UID != l.UID
	}, patience, poll, "it registers again")
	c.requirePublished(first, second)
	c.assertAlways(since(), first)
}

// The client is that of client-go by default, over HTTP/2.
func TestForgottenConnectionIsLeft(t *testing.T) {
	t.Parallel()
	c := newCluster(t, shared)
	proxy, err := shared.Proxy()
	require.NoError(t, err)
	kubeconfig, err := shared.Kubeconfig(proxy.Config(shared.User(c.user())))
	require.NoError(t, err)
	c.start("a", first)
	b := c.start("b", second, "-kubeconfig", kubeconfig)
	c.requirePublished(first, second)
	since := c.seen.Mark()
	proxy.BlackHoleConnections()
	c.requireLog(b, "no answer within")
	c.requireLog(b, "round succeeded again")
	c.requirePublished(first, second)
	c.assertAlways(since(), first, second)
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	t.Parallel()
	t.Run("full ConfigMap", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, shared)
		c.createConfigMap("web-endpoints", map[string]string{"note": strings.Repeat("x", 1<<20-200)})
		c.start("a", first)
		c.requirePublished(first)
		b := c.start("b", second)
		c.requireLog(b, "the store is full: it has 1048")
		c.requireLog(b, "use a LeaseStore")
		c.patchData("web-endpoints", `{"note":"not an instance"}`)
		c.requirePublished(first, second)
		c.requireLog(b, "ignoring malformed entry")
	})
	t.Run("ConfigMap that the server finds full", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, shared)
		_, err := c.client.CoreV1().ConfigMaps(c.namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "web-endpoints"},
			BinaryData: map[string][]byte{"picture": make([]byte, 1<<20-200)}, // which instances do not count
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		c.start("a", first)
		c.requirePublished(first)
		since := c.seen.Mark()
		b := c.start("b", second)
		c.requireLog(b,
			"refresh this instance's entry in ConfigMap "+c.namespace+"/web-endpoints: endpoints: the store is full")
		c.requireLog(b, "Too long: may not be more than 1048576 bytes")
		beats := c.heartbeats("configmaps")
		require.Eventually(t, func() bool { return c.heartbeats("configmaps") > beats+12 }, patience, 10*poll,
			"who is in it cannot stay there")
		assert.Equal(t, []string{first}, c.listed())
		c.patch("web-endpoints", `{"binaryData":null}`)
		c.requirePublished(first, second)
		c.assertAlways(since(), first)
	})
	t.Run("selector", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, shared)
		_, err := c.client.CoreV1().Services(c.namespace).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "selecting"},
			Spec: corev1.ServiceSpec{
				Selector: map[string]string{"a": "b"},
				Ports:    []corev1.ServicePort{{Port: 443}},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		p := c.start("a", first, "-service", "selecting")
		<-p.Done()
		c.requireLog(p, "Service "+c.namespace+"/selecting: endpoints: the Service has a selector")
	})
	t.Run("family", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, shared)
		p := c.start("a", "2001:db8::1,"+first)
		c.requireLog(p, "Service "+c.namespace+"/web has no address of the family of 2001:db8::1: ")
	})
	t.Run("no RBAC", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, shared)
		kubeconfig, err := shared.Kubeconfig(shared.User("powerless"))
		require.NoError(t, err)
		p := c.start("a", first, "-kubeconfig", kubeconfig)
		c.requireLog(p, `not allowed to get ConfigMap `+c.namespace+`/web-endpoints: grant the verb \"get\" on `+
			`resource configmaps`)
	})
}
