package controllerruntime_test

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bellwether-k8s/bellwether/controllerruntime"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// shardProgram is a replica of a ring of ConfigMaps.
type shardProgram struct {
	connection *apisim.Client
	replica    *replica.Replica
	standby    controllerruntime.Standby
	lists      atomic.Int64 // of everything, by the shard
	reconciled atomic.Int64
}

func newShardProgram(t *testing.T, server *apisim.Server, wanted labels.Selector) *shardProgram {
	t.Helper()
	p := &shardProgram{connection: server.Client("a")}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, k := range []string{"ConfigMap", "ConfigMapList"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(k), meta.RESTScopeNamespace)
	}
	var err error
	p.replica, err = replica.New(p.connection.Config(), replica.Config{
		Namespace: "default", Ring: "r", Identity: "a", StepDown: 3 * time.Second, Mapper: mapper,
		Resources: []api.Resource{{GVR: corev1.SchemeGroupVersion.WithResource("configmaps"), Selector: wanted}},
		OnLost:    func(err error) { assert.NoError(t, err, "it should step down") },
	})
	require.NoError(t, err)
	config := rest.CopyConfig(p.replica.ShardConfig)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if q := r.URL.Query(); q.Get("limit") != "1" && (q.Get("watch") == "" || q.Get("sendInitialEvents") != "") {
				p.lists.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	p.standby = controllerruntime.Standby{
		Config: config,
		Options: manager.Options{
			MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
			Metrics:        metricsserver.Options{BindAddress: "0"},
			Cache: cache.Options{
				NewInformer: p.replica.Shard.NewInformer,
				ByObject:    map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: p.replica.Shard.Selector()}},
			},
		},
		Warm: []client.Object{&corev1.ConfigMap{}},
	}
	return p
}

// run is the program, until ctx has ended.
func (p *shardProgram) run(ctx context.Context) error {
	return p.standby.Run(ctx, func(ctx context.Context, lead func(context.Context) error) error {
		return p.replica.Run(ctx, lead, nil)
	}, func(mgr manager.Manager) error {
		return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(
			controllerruntime.WrapReconciler[corev1.ConfigMap](p.replica.Shard, mgr.GetClient(), reconcile.Func(
				func(context.Context, reconcile.Request) (reconcile.Result, error) {
					p.reconciled.Add(1)
					return reconcile.Result{}, nil
				})))
	})
}

// The manager's cache has no selector of its own. In an outage, an object of no shard changes: the
// informer's selector keeps it from this cache, which so hears nothing of that version for a minute.
func TestATermOfAShardDoesNotWaitForObjectsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		user := kubernetes.NewForConfigOrDie(server.Client("user").Config()).CoreV1().ConfigMaps("default")
		for name, set := range map[string]labels.Set{"c": {"ring": "r"}, "other": nil} {
			_, err := user.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: set},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		p := newShardProgram(t, server, labels.SelectorFromSet(labels.Set{"ring": "r"}))
		p.standby.Options.Cache.ByObject = nil
		end := p.runIntoAnOutage(t, user, "other")
		p.connection.Inject(apisim.Faults{})
		time.Sleep(15 * time.Second)
		assert.Positive(t, p.reconciled.Load())
		end()
	})
}

// runIntoAnOutage runs the program until its term has ended because the API server does not answer. Meanwhile
// an object is changed. What it returns ends the program.
func (p *shardProgram) runIntoAnOutage(t *testing.T, user corev1client.ConfigMapInterface, name string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	time.Sleep(time.Minute)
	require.Positive(t, p.reconciled.Load())

	p.connection.Inject(apisim.Faults{Refuse: apisim.Always, Silent: true})
	time.Sleep(11 * time.Second)
	p.reconciled.Store(0)
	o, err := user.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	o.Data = map[string]string{"is": "changed"}
	_, err = user.Update(t.Context(), o, metav1.UpdateOptions{})
	require.NoError(t, err)
	return func() {
		cancel()
		assert.NoError(t, <-ended)
	}
}

// After an outage, the watch of the cache is open and brings nothing.
func TestATermOfAShardWhoseWatchHangsBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		user := kubernetes.NewForConfigOrDie(server.Client("user").Config()).CoreV1().ConfigMaps("default")
		_, err := user.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
			metav1.CreateOptions{})
		require.NoError(t, err)
		p := newShardProgram(t, server, nil)
		end := p.runIntoAnOutage(t, user, "c")
		p.connection.Inject(apisim.Faults{Silent: true})
		time.Sleep(time.Minute)
		assert.Positive(t, p.reconciled.Load())
		end()
	})
}

// A shard that has stepped down, and takes its lease back, lists nothing again. Its controllers are
// new ones.
func TestAShardThatStepsDownKeepsItsCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		user := kubernetes.NewForConfigOrDie(server.Client("user").Config()).CoreV1().ConfigMaps("default")
		for i := range 3 {
			_, err := user.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "c" + strconv.Itoa(i)},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		p := newShardProgram(t, server, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.run(ctx) }()
		time.Sleep(time.Minute)
		assert.GreaterOrEqual(t, p.reconciled.Load(), int64(3))
		lists := p.lists.Load()
		require.Positive(t, lists)
		term, err := p.replica.Lease.Term()
		require.NoError(t, err)

		for range 2 {
			p.connection.Inject(apisim.Faults{Refuse: apisim.Always, Silent: true})
			time.Sleep(11 * time.Second)
			_, err = p.replica.Lease.Term()
			require.ErrorIs(t, err, shardlease.ErrNotHeld)
			p.connection.Inject(apisim.Faults{})
			time.Sleep(time.Minute)
			again, err := p.replica.Lease.Term()
			require.NoError(t, err)
			require.NotSame(t, term, again)
			term = again
			p.reconciled.Store(0)
			c, err := user.Get(t.Context(), "c1", metav1.GetOptions{})
			require.NoError(t, err)
			c.Data = map[string]string{"at": time.Now().String()}
			_, err = user.Update(t.Context(), c, metav1.UpdateOptions{})
			require.NoError(t, err)
			time.Sleep(time.Second)
			assert.EqualValues(t, 1, p.reconciled.Load())
		}
		assert.Equal(t, lists, p.lists.Load())
		cancel()
		assert.NoError(t, <-ended)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
