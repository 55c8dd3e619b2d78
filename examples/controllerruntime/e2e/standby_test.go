package e2e_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bellwether-k8s/bellwether/controllerruntime"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// candidate is an elected program in this process, with ConfigMaps to work on. It counts its
// requests, and can be cut off from its Lease.
type candidate struct {
	crew    *crew
	elector *leaderelection.Elector
	cut     atomic.Bool
	probes  string // address
	end     func() error

	mu         sync.Mutex
	requests   map[string]int       // guarded by mu: for ConfigMaps, by kind of request
	began      map[string]time.Time // guarded by mu: the first reconcile of each term
	stale      []string             // guarded by mu: objects that were older than their term
	reconciled map[string]int       // guarded by mu: by term
}

// RoundTripper counts and cuts off.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (c *candidate) observe(inner http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		query := r.URL.Query()
		switch resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; {
		case c.cut.Load() && strings.Contains(r.URL.Path, "/leases"):
			return nil, errors.New("cut off")
		case r.Method != http.MethodGet || resource != "configmaps":
		case query.Get("sendInitialEvents") == "true", query.Get("watch") == "" && query.Get("limit") != "1":
			c.count("all")
		case query.Get("watch") == "":
			c.count("one")
		default:
			c.count("watch")
		}
		return inner.RoundTrip(r)
	})
}

func (c *candidate) count(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[kind]++
}

func (c *candidate) counted(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[kind]
}

// candidate starts one. Every reconcile of a term must see the data that want returns.
func (c *crew) candidate(name string, want func() string) *candidate {
	c.t.Helper()
	n := &candidate{crew: c, requests: map[string]int{}, began: map[string]time.Time{}, reconciled: map[string]int{}}
	config := shared.Admin()
	config.Wrap(n.observe)
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	require.NoError(c.t, err)
	n.elector, err = leaderelection.New(leases, leaderelection.Config{
		Namespace: c.namespace, Name: "widgets", Identity: name, LeaseDuration: duration, StepDown: 3 * time.Second,
		OnLost: func(err error) { assert.NoError(c.t, err) },
	})
	require.NoError(c.t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(c.t, err)
	n.probes = listener.Addr().String()
	require.NoError(c.t, listener.Close())
	guarded := rest.CopyConfig(config)
	guarded.Wrap(n.elector.WrapTransport)
	options := c.managerOptions()
	options.HealthProbeBindAddress = n.probes
	standby := controllerruntime.Standby{
		Config: guarded, Options: options, Warm: []client.Object{&corev1.ConfigMap{}},
		SetUp: func(mgr ctrl.Manager) error { return mgr.AddHealthzCheck("election", n.elector.Check) },
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- standby.Run(ctx, n.elector.Run, func(mgr ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
				func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
					term, _ := leaderelection.TermFrom(ctx)
					var m corev1.ConfigMap
					if err := mgr.GetClient().Get(ctx, r.NamespacedName, &m); err != nil {
						return ctrl.Result{}, client.IgnoreNotFound(err)
					}
					n.note(term.Token, &m, want())
					return ctrl.Result{}, nil
				}))
		})
	}()
	n.end = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	c.t.Cleanup(func() { assert.NoError(c.t, n.end()) })
	return n
}

func (c *candidate) note(term string, m *corev1.ConfigMap, want string) {
	if m.Labels["example.bellwether.dev/digest"] == "" { // the namespace's own
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.began[term].IsZero() {
		c.began[term] = time.Now()
	}
	if m.Data["n"] != want {
		c.stale = append(c.stale, m.Name+" has "+m.Data["n"]+" in the term of "+want)
	}
	c.reconciled[term]++
}

// requireTerm waits until n objects have been reconciled in the nth term of the candidate.
func (c *candidate) requireTerm(nth, objects int) {
	c.crew.t.Helper()
	c.crew.eventually(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		all := 0
		for _, n := range c.reconciled {
			all += n
		}
		return len(c.began) == nth && all >= nth*objects
	}, "the controller does not work in term %d", nth)
}

// requireRenewal waits until the Lease has been renewed. Before that, its process does not take it
// back before it has expired.
func (c *candidate) requireRenewal() {
	c.crew.t.Helper()
	renewed := func() time.Time {
		l, err := c.crew.client.CoordinationV1().Leases(c.crew.namespace).Get(c.crew.t.Context(), "widgets",
			metav1.GetOptions{})
		require.NoError(c.crew.t, err)
		return l.Spec.RenewTime.Time
	}
	before := renewed()
	c.crew.eventually(func() bool { return renewed().After(before) }, "the Lease is not renewed")
}

func (c *candidate) requireAlive() {
	c.crew.t.Helper()
	response, err := http.Get("http://" + c.probes + "/healthz")
	require.NoError(c.crew.t, err)
	require.NoError(c.crew.t, response.Body.Close())
	require.Equal(c.crew.t, http.StatusOK, response.StatusCode)
}

// latest is when the first reconcile of the latest term began.
func (c *candidate) latest() (at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, began := range c.began {
		if began.After(at) {
			at = began
		}
	}
	return at
}

// One process leads three times with the caches that it filled once, and is succeeded by one whose
// caches are warm. No term begins on old data.
func TestManagersOfEachTermOnWarmCaches(t *testing.T) {
	t.Parallel()
	const objects = 20
	c := newCrew(t)
	c.create(objects)
	var want atomic.Value
	set := func(n string) {
		want.Store(n)
		c.change(map[string]string{"n": n})
	}
	set("0")
	a := c.candidate("a", func() string { return want.Load().(string) })
	a.requireTerm(1, objects)
	for nth, n := range []string{"1", "2"} {
		a.requireRenewal()
		a.cut.Store(true)
		c.eventually(func() bool { return !a.elector.IsLeader() }, "it has not stepped down")
		a.requireAlive()
		set(n)
		a.cut.Store(false)
		back := time.Now()
		c.eventually(a.elector.IsLeader, "it does not lead again")
		led := time.Now()
		a.requireTerm(nth+2, objects)
		a.requireAlive()
		t.Logf("leads %v after its Lease can be written again; the first reconcile %v later",
			led.Sub(back).Round(time.Millisecond), a.latest().Sub(led).Round(time.Millisecond))
	}
	assert.Equal(t, 1, a.counted("all"), "lists")
	t.Logf("in three terms: %d lists of all ConfigMaps, %d of one, %d watches", a.counted("all"), a.counted("one"),
		a.counted("watch"))

	b := c.candidate("b", func() string { return want.Load().(string) })
	c.eventually(func() bool { return b.counted("watch")+b.counted("all") >= 1 }, "b has no cache")
	b.requireAlive()
	end := time.Now()
	require.NoError(t, a.end())
	b.requireTerm(1, objects)
	t.Logf("the first reconcile of the successor %v after the end of the leader's context",
		b.latest().Sub(end).Round(time.Millisecond))
	assert.Equal(t, 1, b.counted("all"))
	require.NoError(t, b.end())
	assert.Empty(t, a.stale)
	assert.Empty(t, b.stale)
}
