package endpoints_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// The timing of most tests, which is the default.
const (
	interval = 10 * time.Second
	expiry   = time.Minute
)

// stores are the stores that each test for both runs with.
var stores = map[string]endpoints.Store{
	"ConfigMap": endpoints.ConfigMapStore{},
	"Leases":    endpoints.LeaseStore{},
}

// https is the port of most instances.
var https = endpoints.Port{Name: "https", Number: 443, Protocol: corev1.ProtocolTCP}

// cluster is an API server, and an admin's client.
type cluster struct {
	*testing.T
	server *apisim.Server
	client kubernetes.Interface
	store  endpoints.Store
}

// inCluster runs a test in a bubble.
func inCluster(t *testing.T, store endpoints.Store, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		c := &cluster{
			T: t, server: server, client: kubernetes.NewForConfigOrDie(server.Client("admin").Config()),
			store: store,
		}
		c.createService(nil)
		test(c)
	})
}

// inBoth runs a test with each store.
func inBoth(t *testing.T, test func(c *cluster)) {
	t.Helper()
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, store, test)
		})
	}
}

func (c *cluster) createService(selector map[string]string) *corev1.Service {
	c.Helper()
	return c.createServiceIn("ns", selector)
}

func (c *cluster) createServiceIn(namespace string, selector map[string]string) *corev1.Service {
	c.Helper()
	s, err := c.client.CoreV1().Services(namespace).Create(c.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: corev1.ServiceSpec{Selector: selector},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	return s
}

// instance is a reconciler with a record of what it did.
type instance struct {
	*endpoints.Reconciler
	config  endpoints.Config
	client  *apisim.Client
	gateway gateway
	cancel  context.CancelFunc
	result  chan error // of Run
	logs    *observer.ObservedLogs
	ran     bool

	mu      sync.Mutex
	record  record
	unready error
}

// record is what hooks and Events have reported.
type record struct {
	rounds             []endpoints.Round
	ended              []time.Time // rounds, in the same order
	expired, malformed []endpoints.Status
	published          [][]endpoints.Endpoint
	events             []string
}

// told returns the record so far.
func (i *instance) told() record {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.record
}

// newInstance returns an instance with this address.
func newInstance(c *cluster, address string, change func(*endpoints.Config)) *instance {
	c.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	i := &instance{
		client: c.server.Client(strings.ReplaceAll(address, ":", "-")), logs: logs,
		result: make(chan error, 1),
	}
	config := endpoints.Config{
		Namespace: "ns", Service: "web", Addresses: []netip.Addr{netip.MustParseAddr(address)},
		Ports: []endpoints.Port{https},
		Store: c.store, Logger: zap.New(core),
		Events: recorder(func(event string) { i.note(func(r *record) { r.events = append(r.events, event) }) }),
		Ready: func(context.Context) error {
			i.mu.Lock()
			defer i.mu.Unlock()
			return i.unready
		},
		Hooks: endpoints.Hooks{
			OnRound: func(round endpoints.Round) {
				i.note(func(r *record) { r.rounds, r.ended = append(r.rounds, round), append(r.ended, time.Now()) })
			},
			OnExpired:   func(s endpoints.Status) { i.note(func(r *record) { r.expired = append(r.expired, s) }) },
			OnMalformed: func(s endpoints.Status) { i.note(func(r *record) { r.malformed = append(r.malformed, s) }) },
			OnPublished: func(e []endpoints.Endpoint) {
				i.note(func(r *record) { r.published = append(r.published, e) })
			},
		},
	}
	if change != nil {
		change(&config)
	}
	i.config = config
	var err error
	connection := i.client.Config()
	connection.Wrap(i.gateway.wrap)
	i.Reconciler, err = endpoints.New(kubernetes.NewForConfigOrDie(connection), config)
	require.NoError(c, err)
	return i
}

type recorder func(event string)

func (r recorder) Eventf(regarding, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	r(eventType + " " + regarding.(*corev1.Service).Name + " " + reason + " " + fmt.Sprintf(note, args...))
}

func (i *instance) note(what func(*record)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	what(&i.record)
}

func (i *instance) setReady(err error) { i.note(func(*record) { i.unready = err }) }

// start runs the instance until it is stopped or the test ends.
func (i *instance) start(c *cluster) *instance {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	i.cancel = cancel
	go func() { i.result <- i.Run(ctx) }()
	c.Cleanup(func() { _ = i.die() })
	synctest.Wait()
	return i
}

// stop ends the instance and returns what Run returned.
func (i *instance) stop() error {
	i.cancel()
	i.ran = true
	return <-i.result
}

// die acts like SIGKILL: the instance does not withdraw. It returns when Run has given that up, an
// interval later.
func (i *instance) die() error {
	if i.ran {
		return nil
	}
	i.client.Sever()
	return i.stop()
}

// once runs a round, which must succeed.
func (i *instance) once(c *cluster) {
	c.Helper()
	require.NoError(c, i.ReconcileOnce(c.Context()))
}

func (i *instance) lastRound() endpoints.Round {
	rounds := i.told().rounds
	return rounds[len(rounds)-1]
}

// slices returns all EndpointSlices of the Service.
func (c *cluster) slices() []discoveryv1.EndpointSlice {
	c.Helper()
	list, err := c.client.DiscoveryV1().EndpointSlices("ns").List(c.Context(), metav1.ListOptions{})
	require.NoError(c, err)
	return list.Items
}

// published returns the endpoints in our slices as address:port/name, sorted. It checks each slice.
func (c *cluster) published() []string {
	c.Helper()
	var all []string
	for _, s := range c.slices() {
		if s.Labels[discoveryv1.LabelManagedBy] != endpoints.ManagedBy {
			continue
		}
		all = append(all, contents(c, s)...)
	}
	slices.Sort(all)
	return all
}

func contents(c *cluster, s discoveryv1.EndpointSlice) []string {
	c.Helper()
	var all []string
	assert.Equal(c, "web", s.Labels[discoveryv1.LabelServiceName])
	if assert.Len(c, s.OwnerReferences, 1) {
		assert.Equal(c, "Service", s.OwnerReferences[0].Kind)
	}
	names := map[string]bool{}
	for _, p := range s.Ports {
		assert.False(c, names[*p.Name], "the API server refuses a slice with two ports of one name")
		names[*p.Name] = true
	}
	for _, e := range s.Endpoints {
		require.Len(c, e.Addresses, 1)
		assert.True(c, *e.Conditions.Ready)
		family := discoveryv1.AddressTypeIPv6
		if netip.MustParseAddr(e.Addresses[0]).Is4() {
			family = discoveryv1.AddressTypeIPv4
		}
		assert.Equal(c, family, s.AddressType)
		for _, p := range s.Ports {
			all = append(all,
				fmt.Sprintf("%s/%s", netip.AddrPortFrom(netip.MustParseAddr(e.Addresses[0]), uint16(*p.Port)), *p.Name))
		}
	}
	return all
}

// requirePublished requires that exactly these endpoints are published: address:port/name, or an
// address for its port 443.
func (c *cluster) requirePublished(want ...string) {
	c.Helper()
	for n, text := range want {
		if a, err := netip.ParseAddr(text); err == nil {
			want[n] = netip.AddrPortFrom(a, 443).String() + "/https"
		}
	}
	slices.Sort(want)
	require.Equal(c, want, c.published())
}

// data returns the data of the ConfigMap store.
func (c *cluster) data() map[string]string {
	c.Helper()
	m, err := c.client.CoreV1().ConfigMaps("ns").Get(c.Context(), "web-endpoints", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(c, err)
	return m.Data
}

// keys returns the keys in the store, sorted.
func (c *cluster) keys() []string {
	c.Helper()
	var keys []string
	for key := range c.data() {
		keys = append(keys, key)
	}
	list, err := c.client.CoordinationV1().Leases("ns").List(c.Context(), metav1.ListOptions{})
	require.NoError(c, err)
	for _, l := range list.Items {
		keys = append(keys, l.Name)
	}
	slices.Sort(keys)
	return keys
}

// addressesInStore returns the addresses of all entries, sorted.
func (c *cluster) addressesInStore() []string {
	c.Helper()
	var all []string
	for _, key := range c.keys() {
		_, address, _ := strings.Cut(key, "ip-")
		all = append(all, strings.ReplaceAll(address[:strings.LastIndex(address, "-")], "-", "."))
	}
	return all
}

// patchData merges into the data of a ConfigMap.
func (c *cluster) patchData(name, data string) {
	c.Helper()
	_, err := c.client.CoreV1().ConfigMaps("ns").Patch(c.Context(), name, types.MergePatchType,
		[]byte(`{"data":`+data+`}`), metav1.PatchOptions{})
	require.NoError(c, err)
}

func (c *cluster) createConfigMap(name string, data map[string]string) {
	c.Helper()
	_, err := c.client.CoreV1().ConfigMaps("ns").Create(c.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	require.NoError(c, err)
}

// loseStore deletes the store.
func (c *cluster) loseStore() {
	c.Helper()
	_ = c.client.CoreV1().ConfigMaps("ns").Delete(c.Context(), "web-endpoints", metav1.DeleteOptions{})
	require.NoError(c,
		c.client.CoordinationV1().Leases("ns").DeleteCollection(c.Context(), metav1.DeleteOptions{},
			metav1.ListOptions{}))
}

// written starts to count writes that the API server applies. The result returns their number by
// resource.
func (c *cluster) written() func() map[string]int {
	c.Helper()
	before := len(c.server.Trace())
	return func() map[string]int {
		writes := map[string]int{}
		for _, s := range c.server.Trace()[before:] {
			if s.Method != http.MethodGet && s.Client != "admin" && s.Code < 300 {
				writes[path.Base(resourcePath(s))]++
			}
		}
		return writes
	}
}

// resourcePath returns the path of a request without the object's name.
func resourcePath(s apisim.Served) string {
	if s.Method == http.MethodPost {
		return s.Path
	}
	return path.Dir(s.Path)
}

// errUnwell is the error of an instance that is not ready.
var errUnwell = errors.New("unwell")

// offsetClock is the system's clock with a wrong wall clock.
type offsetClock struct {
	clock.Clock
	offset time.Duration
}

func (c offsetClock) Now() clock.Reading {
	now := c.Clock.Now()
	now.Wall = now.Wall.Add(c.offset)
	return now
}

// stoppingClock is the clock of a process that can be stopped anywhere. A stop advances it at once,
// and fires no timer.
type stoppingClock struct {
	clock.Clock
	stopped atomic.Int64
}

func (c *stoppingClock) stop(d time.Duration) { c.stopped.Add(int64(d)) }

func (c *stoppingClock) Now() clock.Reading {
	now, stopped := c.Clock.Now(), time.Duration(c.stopped.Load())
	now.Wall, now.Monotonic = now.Wall.Add(stopped), now.Monotonic+stopped
	return now
}

// stopAfterHeartbeat stops an instance's process right after its next heartbeat.
func (c *cluster) stopAfterHeartbeat(client string, clock *stoppingClock, d time.Duration) {
	c.Helper()
	var once sync.Once
	c.server.Observe(func(change apisim.Change) {
		if o := change.After; o != nil && change.Client == client && o.GetKind() != "EndpointSlice" {
			once.Do(func() { clock.stop(d) })
		}
	})
}

// deadEntry and deadLease are entries of an instance that is not refreshed any more.
const deadEntry = `{"name":"https","port":443,"protocol":"TCP","creationTimestamp":"2026-11-21T10:00:00Z",` +
	`"updateTimestamp":"2026-11-21T10:07:30Z"}`

func deadLease() *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "ns.web.ip-10-0-0-7-443",
			Labels: map[string]string{endpoints.ServiceLabel: "web", endpoints.NamespaceLabel: "ns"},
			Annotations: map[string]string{
				endpoints.EndpointsAnnotation: `{"addresses":["10.0.0.7"],"ports":[{"name":"https","port":443,` +
					`"protocol":"TCP"}]}`,
			},
		},
		Spec: coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(time.Unix(1000, 0)))},
	}
}

// quote returns a text as a JSON string.
func quote(text string) string {
	quoted, _ := json.Marshal(text) // cannot fail for a string
	return string(quoted)
}
