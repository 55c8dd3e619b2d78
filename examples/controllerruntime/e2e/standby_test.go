package e2e_test

import (
	"context"
	"errors"
	"fmt"
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

// chronicle is what the leaders have written: into each ConfigMap, the term.
type chronicle struct {
	mu      sync.Mutex
	written map[string]string // guarded by mu: by ConfigMap
	stale   []string          // guarded by mu: what leaders saw that was older
}

// candidate is an elected program in this process, with ConfigMaps to work on. It counts its
// requests, and can be cut off from its Lease.
type candidate struct {
	cluster *cluster
	told    *chronicle
	elector *leaderelection.Elector
	cut     atomic.Bool
	probes  string // address
	end     func() error

	mu       sync.Mutex
	requests map[string]int // guarded by mu: for ConfigMaps, by kind of request
	terms    []*period      // guarded by mu
}

// period is one term of a candidate.
type period struct {
	token string
	began time.Time // its first reconcile
	seen  map[string]bool
}

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

func (c *cluster) candidate(name string, told *chronicle) *candidate {
	c.t.Helper()
	n := &candidate{cluster: c, told: told, requests: map[string]int{}}
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
					return ctrl.Result{}, n.reconcile(ctx, mgr.GetClient(), r.NamespacedName)
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

// reconcile writes the term into a ConfigMap. When it sees one for the first time in a term, it has to
// see what was written last.
func (c *candidate) reconcile(ctx context.Context, objects client.Client, key client.ObjectKey) error {
	var m corev1.ConfigMap
	if err := objects.Get(ctx, key, &m); err != nil {
		return client.IgnoreNotFound(err)
	}
	term, _ := leaderelection.TermFrom(ctx)
	if m.Labels["example.bellwether.dev/digest"] == "" || m.Data["term"] == term.Token { // the namespace's own; done
		return nil
	}
	c.told.mu.Lock()
	if last := c.told.written[m.Name]; c.first(term.Token, m.Name) && m.Data["term"] != last {
		c.told.stale = append(c.told.stale, fmt.Sprintf("%s is of %q, not %q", m.Name, m.Data["term"], last))
	}
	c.told.mu.Unlock()
	m.Data = map[string]string{"term": term.Token}
	if err := objects.Update(ctx, &m); err != nil {
		return err
	}
	c.told.mu.Lock()
	defer c.told.mu.Unlock()
	c.told.written[m.Name] = term.Token
	return nil
}

// first reports whether an object has not been seen in this term.
func (c *candidate) first(token, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.terms) == 0 || c.terms[len(c.terms)-1].token != token {
		c.terms = append(c.terms, &period{token, time.Now(), map[string]bool{}})
	}
	p := c.terms[len(c.terms)-1]
	defer func() { p.seen[name] = true }()
	return !p.seen[name]
}

// requireTerm waits until all objects have been reconciled in the nth term of the candidate. It
// returns when the first reconcile was.
func (c *candidate) requireTerm(nth, objects int) (began time.Time) {
	c.cluster.t.Helper()
	c.cluster.eventually(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.terms) != nth || len(c.terms[nth-1].seen) != objects {
			return false
		}
		began = c.terms[nth-1].began
		return true
	}, "the controller does not work in term %d", nth)
	return began
}

// requireRenewal waits until the Lease has been renewed. Before that, its process does not take it
// back before it has expired.
func (c *candidate) requireRenewal() {
	c.cluster.t.Helper()
	renewed := func() time.Time {
		l, err := c.cluster.client.CoordinationV1().Leases(c.cluster.namespace).Get(c.cluster.t.Context(), "widgets",
			metav1.GetOptions{})
		require.NoError(c.cluster.t, err)
		return l.Spec.RenewTime.Time
	}
	before := renewed()
	c.cluster.eventually(func() bool { return renewed().After(before) }, "the Lease is not renewed")
}

func (c *candidate) requireAlive() {
	c.cluster.t.Helper()
	response, err := http.Get("http://" + c.probes + "/healthz")
	require.NoError(c.cluster.t, err)
	require.NoError(c.cluster.t, response.Body.Close())
	require.Equal(c.cluster.t, http.StatusOK, response.StatusCode)
}

// One process leads three times with the caches that it filled once, and is succeeded by one whose
// caches are warm. No term begins on old data.
func TestManagersOfEachTermOnWarmCaches(t *testing.T) {
	t.Parallel()
	const objects = 20
	c := newCluster(t)
	c.create(objects)
	told := &chronicle{written: map[string]string{}}
	a := c.candidate("a", told)
	a.requireTerm(1, objects)
	for nth := 2; nth <= 3; nth++ {
		a.requireRenewal()
		a.cut.Store(true)
		c.eventually(func() bool { return !a.elector.IsLeader() }, "it has not stepped down")
		a.requireAlive()
		a.cut.Store(false)
		back := time.Now()
		c.eventually(a.elector.IsLeader, "it does not lead again")
		led := time.Now()
		began := a.requireTerm(nth, objects)
		a.requireAlive()
		t.Logf("leads %v after its Lease can be written again; the first reconcile %v later",
			led.Sub(back).Round(time.Millisecond), began.Sub(led).Round(time.Millisecond))
	}
	assert.Equal(t, 1, a.counted("all"), "lists")
	t.Logf("in three terms: %d lists of all ConfigMaps, %d of one, %d watches", a.counted("all"), a.counted("one"),
		a.counted("watch"))

	b := c.candidate("b", told)
	c.eventually(func() bool { return b.counted("watch")+b.counted("all") > 0 }, "b has no cache")
	b.requireAlive()
	end := time.Now()
	require.NoError(t, a.end())
	t.Logf("the first reconcile of the successor %v after the end of the leader's context",
		b.requireTerm(1, objects).Sub(end).Round(time.Millisecond))
	assert.Equal(t, 1, b.counted("all"), "lists")
	require.NoError(t, b.end())
	assert.Empty(t, told.stale)
}
