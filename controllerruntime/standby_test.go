package controllerruntime_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bellwether-k8s/bellwether/controllerruntime"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// program is a process with a Standby for ConfigMaps.
type program struct {
	t          *testing.T
	name       string
	server     *apisim.Server
	connection *apisim.Client
	elector    *leaderelection.Elector
	standby    controllerruntime.Standby
	lost       chan error
}

// newProgram returns a process that steps down when it cannot renew its Lease.
func newProgram(t *testing.T, server *apisim.Server, name string) *program {
	t.Helper()
	p := &program{t: t, name: name, server: server, connection: server.Client(name), lost: make(chan error, 100)}
	var err error
	p.elector, err = leaderelection.New(kubernetes.NewForConfigOrDie(leaderelection.LeaseConfig(p.connection.Config())),
		leaderelection.Config{
			Namespace: "default", Name: "l", Identity: name, StepDown: 3 * time.Second,
			OnLost: func(err error) { p.lost <- err },
		})
	require.NoError(t, err)
	guarded := p.connection.Config()
	guarded.Wrap(p.elector.WrapTransport)
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, k := range []string{"ConfigMap", "ConfigMapList", "Service", "Event"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(k), meta.RESTScopeNamespace)
	}
	p.standby = controllerruntime.Standby{
		Config: guarded,
		Options: manager.Options{
			MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
			Metrics:        metricsserver.Options{BindAddress: "0"},
		},
		Warm: []client.Object{&corev1.ConfigMap{}},
	}
	return p
}

// start runs the program until stop is called, which returns the error of Run.
func (p *program) start(elect func(context.Context, func(context.Context) error) error,
	setUp func(manager.Manager) error,
) (stop func() error) {
	ctx, cancel := context.WithCancel(p.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.standby.Run(ctx, elect, setUp) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// stepDown has the leader step down: its Lease cannot be renewed for 10 s.
func (p *program) stepDown() {
	p.connection.Inject(apisim.Faults{Refuse: isLeases})
	time.Sleep(10 * time.Second)
	p.connection.Inject(apisim.Faults{})
}

func isLeases(r *http.Request) bool { return strings.Contains(r.URL.Path, "/leases") }

// requests counts what the program asked about a resource: all of it, and otherwise.
func (p *program) requests(from int, resource string) (full, small, watches int) {
	for _, s := range p.server.TraceFrom(from) {
		if s.Client != p.name || s.Method != http.MethodGet || !strings.HasSuffix(s.Path, "/"+resource) {
			continue
		}
		query, err := url.ParseQuery(s.Query)
		require.NoError(p.t, err)
		switch {
		case query.Get("sendInitialEvents") == "true":
			full++
		case query.Get("watch") != "":
			watches++
		case query.Get("limit") == "1":
			small++
		default:
			full++
		}
	}
	return full, small, watches
}

// inTerms is an elector whose terms begin and end when the test says so.
type inTerms struct {
	begin chan context.Context
	ended chan error
}

func newTerms() inTerms {
	return inTerms{begin: make(chan context.Context), ended: make(chan error)}
}

func (e inTerms) run(ctx context.Context, lead func(context.Context) error) error {
	for {
		select {
		case term := <-e.begin:
			e.ended <- lead(term)
		case <-ctx.Done():
			return nil
		}
	}
}

// admin writes with a connection of its own.
type admin struct {
	t      *testing.T
	client kubernetes.Interface
}

func newAdmin(t *testing.T, server *apisim.Server) admin {
	return admin{t, kubernetes.NewForConfigOrDie(server.Client("admin").Config())}
}

func (a admin) create(name string) {
	a.t.Helper()
	_, err := a.client.CoreV1().ConfigMaps("default").Create(a.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(a.t, err)
}

func (a admin) set(name, value string) {
	a.t.Helper()
	m, err := a.client.CoreV1().ConfigMaps("default").Get(a.t.Context(), name, metav1.GetOptions{})
	require.NoError(a.t, err)
	m.Data = map[string]string{"n": value}
	_, err = a.client.CoreV1().ConfigMaps("default").Update(a.t.Context(), m, metav1.UpdateOptions{})
	require.NoError(a.t, err)
}

// calls are the names of the objects that a reconciler was called for.
type calls struct {
	mu    sync.Mutex
	names []string
}

func (c *calls) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = append(c.names, name)
}

// take returns the calls since it was called last.
func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := c.names
	c.names = nil
	return names
}

func (c *calls) setUp(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
		func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
			c.add(r.Name)
			return reconcile.Result{}, nil
		}))
}

func TestCachesSurviveTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		newAdmin(t, server).create("x")
		p := newProgram(t, server, "a")
		var c calls
		var mu sync.Mutex
		var terms []leaderelection.Term
		stop := p.start(p.elector.Run, func(mgr manager.Manager) error {
			return builder.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
				func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
					term, ok := leaderelection.TermFrom(ctx)
					assert.True(t, ok, "the context of a reconciler is of the term")
					mu.Lock()
					defer mu.Unlock()
					terms = append(terms, term)
					c.add(r.Name)
					return reconcile.Result{}, nil
				}))
		})
		for range 3 {
			from := len(server.Trace())
			time.Sleep(time.Minute)
			assert.Equal(t, []string{"x"}, c.take())
			full, small, watches := p.requests(from, "configmaps")
			t.Logf("requests in a minute: %d lists of all ConfigMaps, %d of one, %d watches", full, small, watches)
			p.stepDown()
			assert.Empty(t, c.take())
		}
		time.Sleep(time.Minute)
		require.NoError(t, stop())
		assert.Empty(t, p.lost)
		full, small, _ := p.requests(0, "configmaps")
		assert.Equal(t, 1, full, "once in the life of the process")
		assert.LessOrEqual(t, small, 4, "once in a term")
		require.Len(t, terms, 4)
		for i := range 3 {
			assert.Equal(t, terms[i].Transitions+1, terms[i+1].Transitions)
		}
	})
}

func TestTheNextProcessIsWarmAndItsFirstReconcileIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		admin := newAdmin(t, server)
		admin.create("x")
		var leaders atomic.Int64
		var last atomic.Int64 // the last write that was acknowledged
		start := func(p *program) (stop func() error) {
			return p.start(p.elector.Run, func(mgr manager.Manager) error {
				first := true
				return builder.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
					func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
						assert.EqualValues(t, 1, leaders.Add(1))
						defer leaders.Add(-1)
						var m corev1.ConfigMap
						if err := mgr.GetClient().Get(ctx, r.NamespacedName, &m); err != nil {
							return reconcile.Result{}, err
						}
						n, _ := strconv.ParseInt(m.Data["n"], 10, 64)
						if first {
							assert.Equal(t, last.Load(), n, "the first reconcile of a term")
						}
						first = false
						m.Data = map[string]string{"n": strconv.FormatInt(last.Load()+1, 10)}
						if err := mgr.GetClient().Update(ctx, &m); err != nil {
							return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil // the cache is behind
						}
						last.Add(1)
						return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
					}))
			})
		}
		a, b := newProgram(t, server, "a"), newProgram(t, server, "b")
		a.connection.Inject(apisim.Faults{WatchLag: time.Second})
		b.connection.Inject(apisim.Faults{WatchLag: 3 * time.Second})
		stopA := start(a)
		time.Sleep(time.Minute)
		stopB := start(b)
		time.Sleep(time.Minute)
		require.True(t, a.elector.IsLeader())
		before := last.Load()
		assert.Positive(t, before)
		require.NoError(t, stopA())
		time.Sleep(time.Minute)
		assert.True(t, b.elector.IsLeader())
		assert.Greater(t, last.Load(), before)
		full, _, _ := b.requests(0, "configmaps")
		assert.Equal(t, 1, full)
		require.NoError(t, stopB())
	})
}

// counting is an informer that counts its event handlers.
type counting struct {
	toolscache.SharedIndexInformer
	handlers *atomic.Int64
}

func (c *counting) AddEventHandler(
	h toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	c.handlers.Add(1)
	return c.SharedIndexInformer.AddEventHandler(h)
}

func (c *counting) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, resync time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	c.handlers.Add(1)
	return c.SharedIndexInformer.AddEventHandlerWithResyncPeriod(h, resync)
}

func (c *counting) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	c.handlers.Add(1)
	return c.SharedIndexInformer.AddEventHandlerWithOptions(h, o)
}

func (c *counting) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	c.handlers.Add(-1)
	return c.SharedIndexInformer.RemoveEventHandler(r)
}

// What an informer of the process shows, no event handler of an ended term hears of.
func TestEventHandlersEndWithTheirTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		admin := newAdmin(t, server)
		admin.create("x")
		p, terms := newProgram(t, server, "a"), newTerms()
		var handlers atomic.Int64
		p.standby.Options.Cache.NewInformer = func(
			source toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
		) toolscache.SharedIndexInformer {
			return &counting{toolscache.NewSharedIndexInformer(source, example, resync, indexers), &handlers}
		}
		var heard calls
		term := 0
		stop := p.start(terms.run, func(mgr manager.Manager) error {
			mine := strconv.Itoa(term)
			i, err := mgr.GetCache().GetInformer(t.Context(), &corev1.ConfigMap{})
			assert.NoError(t, err)
			for _, add := range []func(toolscache.ResourceEventHandler) (
				toolscache.ResourceEventHandlerRegistration, error){
				i.AddEventHandler,
				func(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
					return i.AddEventHandlerWithResyncPeriod(h, time.Hour)
				},
				func(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
					return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
				},
			} {
				_, err = add(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { heard.add(mine) }})
				assert.NoError(t, err)
			}
			return builder.ControllerManagedBy(mgr).Named("c").Watches(&corev1.ConfigMap{}, handler.Funcs{
				UpdateFunc: func(
					context.Context, event.UpdateEvent, workqueue.TypedRateLimitingInterface[reconcile.Request],
				) {
					heard.add(mine)
				},
			}).Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}))
		})
		for term = 1; term <= 3; term++ {
			ctx, end := context.WithCancel(t.Context())
			terms.begin <- ctx
			time.Sleep(time.Minute)
			heard.take()
			admin.set("x", "a"+strconv.Itoa(term))
			time.Sleep(time.Second)
			assert.Equal(t, slices.Repeat([]string{strconv.Itoa(term)}, 4), heard.take())
			assert.EqualValues(t, 4, handlers.Load())
			end()
			require.NoError(t, <-terms.ended)
			assert.Zero(t, handlers.Load(), "they are removed")
			heard.take()
			admin.set("x", "b"+strconv.Itoa(term))
			time.Sleep(time.Second)
			assert.Empty(t, heard.take())
		}
		require.NoError(t, stop())
	})
}

// An event handler may write, too.
func TestARunningEventHandlerKeepsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		newAdmin(t, server).create("x")
		p, terms := newProgram(t, server, "a"), newTerms()
		var began atomic.Bool
		finish := make(chan struct{})
		stop := p.start(terms.run, func(mgr manager.Manager) error {
			return builder.ControllerManagedBy(mgr).Named("c").Watches(&corev1.ConfigMap{},
				handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
					began.Store(true)
					<-finish
					return nil
				})).Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}))
		})
		ctx, end := context.WithCancel(t.Context())
		terms.begin <- ctx
		time.Sleep(time.Minute)
		require.True(t, began.Load())
		end()
		requireGoesOn(t, terms)
		close(finish)
		require.NoError(t, <-terms.ended)
		require.NoError(t, stop())
	})
}

func requireGoesOn(t *testing.T, terms inTerms) {
	t.Helper()
	select {
	case err := <-terms.ended:
		require.FailNow(t, "the lead function has returned", "%v", err)
	case <-time.After(time.Hour):
	}
}

func TestAReconcilerThatIgnoresItsContextKeepsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		newAdmin(t, server).create("x")
		p, terms := newProgram(t, server, "a"), newTerms()
		asked, finish := make(chan struct{}), make(chan struct{})
		stop := p.start(terms.run, func(mgr manager.Manager) error {
			return builder.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
				func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
					<-ctx.Done()
					close(asked)
					<-finish
					return reconcile.Result{}, nil
				}))
		})
		ctx, end := context.WithCancel(t.Context())
		terms.begin <- ctx
		time.Sleep(time.Minute)
		end()
		<-asked
		requireGoesOn(t, terms)
		close(finish)
		require.NoError(t, <-terms.ended)
		require.NoError(t, stop())
	})
}

// Without StepDown's pledge kept, the process loses the Lease as without StepDown.
func TestAReconcilerThatIgnoresItsContextEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		newAdmin(t, server).create("x")
		p := newProgram(t, server, "a")
		finish := make(chan struct{})
		stop := p.start(p.elector.Run, func(mgr manager.Manager) error {
			return builder.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
				func(context.Context, reconcile.Request) (reconcile.Result, error) {
					<-finish
					return reconcile.Result{}, nil
				}))
		})
		time.Sleep(time.Minute)
		p.connection.Inject(apisim.Faults{Refuse: isLeases})
		time.Sleep(12 * time.Second)
		assert.ErrorIs(t, <-p.lost, leaderelection.ErrLost)
		time.AfterFunc(time.Minute, func() { close(finish) })
		assert.ErrorIs(t, stop(), leaderelection.ErrLost)
	})
}

func TestAnErrorInATermEndsTheTermAndNotTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		newAdmin(t, server).create("x")
		p, terms := newProgram(t, server, "a"), newTerms()
		var c calls
		broken := errors.New("broken")
		term := 0
		stop := p.start(terms.run, func(mgr manager.Manager) error {
			term++
			switch term {
			case 1:
				return broken
			case 2:
				assert.NoError(t, c.setUp(mgr))
				return mgr.Add(manager.RunnableFunc(func(context.Context) error { return broken }))
			}
			return c.setUp(mgr)
		})
		for range 2 {
			terms.begin <- t.Context()
			require.ErrorIs(t, <-terms.ended, broken)
		}
		c.take()
		ctx, end := context.WithCancel(t.Context())
		terms.begin <- ctx
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"x"}, c.take())
		end()
		require.NoError(t, <-terms.ended)
		require.NoError(t, stop())
	})
}

// The error of an election is that of Run, which does not go on without one.
func TestRunEndsWithTheElection(t *testing.T) {
	for _, broken := range []error{nil, errors.New("broken")} {
		synctest.Test(t, func(t *testing.T) {
			p := newProgram(t, apisim.NewServer(), "a")
			elect := func(context.Context, func(context.Context) error) error { return broken }
			err := p.standby.Run(t.Context(), elect, func(manager.Manager) error { return nil })
			if broken == nil {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, broken)
			}
		})
	}
}

func TestRunEndsWithARunnableOfTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		p := newProgram(t, server, "a")
		broken := errors.New("broken")
		p.standby.SetUp = func(mgr manager.Manager) error {
			return mgr.Add(manager.RunnableFunc(func(context.Context) error {
				<-time.After(time.Minute)
				return broken
			}))
		}
		var c calls
		assert.ErrorIs(t, p.standby.Run(t.Context(), p.elector.Run, c.setUp), broken)
		lease, err := newAdmin(t, server).client.CoordinationV1().Leases("default").Get(t.Context(), "l",
			metav1.GetOptions{})
		require.NoError(t, err)
		assert.Empty(t, *lease.Spec.HolderIdentity, "released")
		assert.Empty(t, p.lost)
	})
}

// What a term reads without watching it is as fresh as what it watches.
func TestReadsOfATermAreFresh(t *testing.T) {
	for name, o := range map[string]func(*manager.Options){
		"default":             func(*manager.Options) {},
		"options of a client": func(o *manager.Options) { o.Client.Cache = &client.CacheOptions{} },
		"two namespaces": func(o *manager.Options) {
			o.Cache.DefaultNamespaces = map[string]cache.Config{"default": {}, "other": {}}
		},
		"by object": func(o *manager.Options) {
			o.Cache.ByObject = map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {}}
		},
	} {
		for _, warm := range [][]client.Object{nil, {&corev1.ConfigMap{}}} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := apisim.NewServer()
					admin := newAdmin(t, server)
					admin.create("x")
					p, terms := newProgram(t, server, "a"), newTerms()
					p.standby.Warm = warm
					o(&p.standby.Options)
					setUps := 0
					stop := p.start(terms.run, func(mgr manager.Manager) error {
						setUps++
						return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
							var m corev1.ConfigMap
							assert.NoError(t, mgr.GetClient().Get(ctx, x.NamespacedName, &m))
							assert.Equal(t, strconv.Itoa(setUps), m.Data["n"])
							var all corev1.ConfigMapList
							assert.NoError(t, mgr.GetClient().List(ctx, &all))
							if assert.Len(t, all.Items, 1) {
								assert.Equal(t, strconv.Itoa(setUps), all.Items[0].Data["n"])
							}
							<-ctx.Done()
							return nil
						}))
					})
					time.Sleep(time.Minute)
					p.connection.Inject(apisim.Faults{WatchLag: 5 * time.Second})
					for term := range 3 {
						admin.set("x", strconv.Itoa(term+1))
						ctx, end := context.WithCancel(t.Context())
						terms.begin <- ctx
						time.Sleep(time.Minute)
						end()
						require.NoError(t, <-terms.ended)
					}
					require.NoError(t, stop())
				})
			})
		}
	}
}

// An informer's first list may come from a cache of the API server, which may be behind.
func TestAnInformerThatATermMakesIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		admin := newAdmin(t, server)
		admin.create("x")
		old, err := admin.client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		p, terms := newProgram(t, server, "a"), newTerms()
		p.connection.Inject(apisim.Faults{WatchLag: 5 * time.Second})
		p.standby.Warm = nil
		p.standby.Options.Cache.NewInformer = func(
			lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
		) toolscache.SharedIndexInformer {
			source := toolscache.ToListerWatcherWithContext(lw)
			behind := &toolscache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					if o.ResourceVersion == "0" {
						return old.DeepCopy(), nil
					}
					return source.ListWithContext(ctx, o)
				},
				WatchFuncWithContext: source.WatchWithContext,
			}
			return toolscache.NewSharedIndexInformer(
				toolscache.ToListWatcherWithWatchListSemantics(behind, listing{}), example, resync, indexers)
		}
		admin.set("x", "1")
		admin.create("y")
		stop := p.start(terms.run, func(mgr manager.Manager) error {
			var all corev1.ConfigMapList
			assert.NoError(t, mgr.GetClient().List(t.Context(), &all))
			if assert.Len(t, all.Items, 2) {
				assert.Contains(t, []string{all.Items[0].Data["n"], all.Items[1].Data["n"]}, "1")
			}
			return nil
		})
		ctx, end := context.WithCancel(t.Context())
		terms.begin <- ctx
		time.Sleep(time.Minute)
		end()
		require.NoError(t, <-terms.ended)
		require.NoError(t, stop())
	})
}

// Events have no watch cache in the API server, so no bookmark says that nothing has happened to them.
func TestAControllerOfEventsBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		admin := newAdmin(t, server)
		_, err := admin.client.CoreV1().Events("default").Create(t.Context(),
			&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		p, terms, reconciled := newProgram(t, server, "a"), newTerms(), &calls{}
		p.standby.Warm = []client.Object{&corev1.Event{}}
		stop := p.start(terms.run, func(mgr manager.Manager) error {
			return builder.ControllerManagedBy(mgr).For(&corev1.Event{}).Complete(reconcile.Func(
				func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
					reconciled.add(r.Name)
					return reconcile.Result{}, nil
				}))
		})
		time.Sleep(time.Second)
		admin.create("x") // the version of etcd is above that of the Events
		for range 2 {
			ctx, end := context.WithCancel(t.Context())
			terms.begin <- ctx
			time.Sleep(5 * time.Second)
			assert.Equal(t, []string{"e"}, reconciled.take())
			end()
			require.NoError(t, <-terms.ended)
		}
		require.NoError(t, stop())
	})
}

// listing is a client that cannot list by a watch.
type listing struct{}

func (listing) IsWatchListSemanticsUnSupported() bool { return true }

// A manager of controller-runtime that is asked to end while its caches have not synced goes on
// until they have.
func TestATermEndsWhileItsCachesAreBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		admin := newAdmin(t, server)
		admin.create("x")
		p, terms := newProgram(t, server, "a"), newTerms()
		var c calls
		stop := p.start(terms.run, func(mgr manager.Manager) error {
			if err := mgr.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "n", byN); err != nil {
				return err
			}
			return c.setUp(mgr)
		})
		time.Sleep(time.Minute)
		p.connection.Inject(apisim.Faults{WatchLag: 24 * time.Hour})
		admin.set("x", "1")
		ctx, end := context.WithCancel(t.Context())
		terms.begin <- ctx
		time.Sleep(time.Minute)
		end()
		begin := time.Now()
		require.NoError(t, <-terms.ended)
		assert.Less(t, time.Since(begin), time.Second)
		assert.Empty(t, c.take())
		require.NoError(t, stop())
	})
}

func byN(o client.Object) []string { return []string{o.(*corev1.ConfigMap).Data["n"]} }

func TestAProcessEndsWhileItsCachesAreBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgram(t, apisim.NewServer(), "a")
		p.connection.Inject(apisim.Faults{Refuse: apisim.Always})
		p.standby.SetUp = func(mgr manager.Manager) error { // so that the manager waits for a cache
			return mgr.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "n", byN)
		}
		var c calls
		stop := p.start(p.elector.Run, c.setUp)
		time.Sleep(time.Minute)
		begin := time.Now()
		require.NoError(t, stop())
		assert.Less(t, time.Since(begin), time.Second)
	})
}

// A replica that has just started does not win against one that is warm.
func TestACandidateIsWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		newAdmin(t, server).create("x")
		p := newProgram(t, server, "a")
		p.connection.Inject(apisim.Faults{Refuse: func(r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "/configmaps")
		}})
		var c calls
		stop := p.start(p.elector.Run, c.setUp)
		time.Sleep(time.Hour)
		assert.False(t, p.elector.IsLeader())
		for _, s := range server.Trace() {
			assert.NotContains(t, s.Path, "/leases")
		}
		p.connection.Inject(apisim.Faults{})
		time.Sleep(2 * time.Minute)
		assert.True(t, p.elector.IsLeader())
		assert.Equal(t, []string{"x"}, c.take())
		require.NoError(t, stop())
	})
}

func TestAnIndexServesAllTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		admin := newAdmin(t, server)
		admin.create("x")
		admin.set("x", "1")
		admin.create("y")
		p, terms := newProgram(t, server, "a"), newTerms()
		stop := p.start(terms.run, func(mgr manager.Manager) error {
			index := mgr.GetFieldIndexer().IndexField
			assert.NoError(t, index(t.Context(), &corev1.ConfigMap{}, "n", byN))
			assert.Error(t, index(t.Context(), &corev1.ConfigMap{}, "n", byN), "twice in a term")
			var found corev1.ConfigMapList
			assert.NoError(t, mgr.GetClient().List(t.Context(), &found, client.MatchingFields{"n": "1"}))
			if assert.Len(t, found.Items, 1) {
				assert.Equal(t, "x", found.Items[0].Name)
			}
			return nil
		})
		for range 3 {
			ctx, end := context.WithCancel(t.Context())
			terms.begin <- ctx
			time.Sleep(time.Minute)
			end()
			require.NoError(t, <-terms.ended)
		}
		require.NoError(t, stop())
	})
}

// A kind that is served no more does not keep later terms from working on others.
func TestAKindThatIsGoneStopsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		newAdmin(t, server).create("x")
		p, terms := newProgram(t, server, "a"), newTerms()
		var c calls
		once := false
		stop := p.start(terms.run, func(mgr manager.Manager) error {
			if once = !once; once {
				if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
					<-time.After(30 * time.Second) // when the controller has started
					_, err := mgr.GetCache().GetInformer(ctx, &corev1.Service{}, cache.BlockUntilSynced(false))
					return err
				})); err != nil {
					return err
				}
			}
			return c.setUp(mgr)
		})
		p.connection.Inject(apisim.Faults{Refuse: func(r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "/services")
		}})
		for range 2 {
			ctx, end := context.WithCancel(t.Context())
			terms.begin <- ctx
			time.Sleep(time.Minute)
			assert.Equal(t, []string{"x"}, c.take())
			end()
			require.NoError(t, <-terms.ended)
		}
		require.NoError(t, stop())
	})
}

func TestAnInformerThatATermRemovesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		admin := newAdmin(t, server)
		admin.create("x")
		p, terms := newProgram(t, server, "a"), newTerms()
		var c calls
		stop := p.start(terms.run, func(mgr manager.Manager) error {
			assert.NoError(t, mgr.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "n", byN))
			assert.NoError(t, mgr.GetCache().RemoveInformer(t.Context(), &corev1.ConfigMap{}))
			assert.NoError(t, mgr.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "n", byN))
			return c.setUp(mgr)
		})
		for term := range 2 {
			admin.set("x", strconv.Itoa(term)) // which a stopped informer never shows
			ctx, end := context.WithCancel(t.Context())
			terms.begin <- ctx
			time.Sleep(time.Minute)
			assert.Equal(t, []string{"x"}, c.take())
			end()
			require.NoError(t, <-terms.ended)
		}
		require.NoError(t, stop())
	})
}

// What a goroutine of an ended term still sends is refused in the next one.
func TestARequestIsOfItsTermOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		newAdmin(t, server).create("x")
		p := newProgram(t, server, "a")
		var mu sync.Mutex
		var writes []func() error
		stop := p.start(p.elector.Run, func(mgr manager.Manager) error {
			return builder.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
				func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
					mu.Lock()
					defer mu.Unlock()
					writes = append(writes, func() error {
						return mgr.GetClient().Create(context.WithoutCancel(ctx), &corev1.Service{
							ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "s-"},
						})
					})
					return reconcile.Result{}, nil
				}))
		})
		time.Sleep(time.Minute)
		p.stepDown()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, writes, 2)
		assert.ErrorIs(t, writes[0](), leaderelection.ErrNotLeader)
		assert.NoError(t, writes[1]())
		require.NoError(t, stop())
	})
}

func TestWhatAStandbyRefuses(t *testing.T) {
	elect := func(context.Context, func(context.Context) error) error { return nil }
	setUp := func(manager.Manager) error { return nil }
	err := controllerruntime.Standby{Options: manager.Options{LeaderElection: true}}.Run(t.Context(), nil, nil)
	for _, rule := range []string{
		"Standby: Config: must", "Standby: Options.LeaderElection: must", "Run: elect: must", "Run: setUp: must",
	} {
		assert.ErrorContains(t, err, rule)
	}
	off := cache.Config{EnableWatchBookmarks: new(bool)}
	for _, o := range []cache.Options{
		{DefaultEnableWatchBookmarks: new(bool)},
		{DefaultNamespaces: map[string]cache.Config{"default": off}},
		{ByObject: map[client.Object]cache.ByObject{&corev1.Service{}: {EnableWatchBookmarks: new(bool)}}},
		{ByObject: map[client.Object]cache.ByObject{
			&corev1.Service{}: {Namespaces: map[string]cache.Config{"default": off}},
		}},
	} {
		err := controllerruntime.Standby{Config: &rest.Config{}, Options: manager.Options{Cache: o}}.
			Run(t.Context(), elect, setUp)
		assert.ErrorContains(t, err, "EnableWatchBookmarks: must not be false")
	}
}

// The manager of a term has the options of the process but for what the process has once.
func TestOptionsOfATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		p, terms := newProgram(t, server, "a"), newTerms()
		options := &client.CacheOptions{DisableFor: []client.Object{&corev1.Service{}}}
		p.standby.Options.Client.Cache = options
		p.standby.Options.Controller = config.Controller{MaxConcurrentReconciles: 7}
		type tenant struct{}
		p.standby.Options.BaseContext = func() context.Context { return context.WithValue(t.Context(), tenant{}, "t") }
		var process manager.Manager
		var value any
		p.standby.SetUp = func(mgr manager.Manager) error {
			process = mgr
			return nil
		}
		stop := p.start(terms.run, func(mgr manager.Manager) error {
			assert.Equal(t, 7, mgr.GetControllerOptions().MaxConcurrentReconciles)
			assert.Same(t, process.GetScheme(), mgr.GetScheme())
			assert.Same(t, process.GetRESTMapper(), mgr.GetRESTMapper())
			assert.NoError(t, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
				value = ctx.Value(tenant{})
				<-ctx.Done()
				return nil
			})))
			return mgr.GetClient().List(t.Context(), &corev1.ServiceList{})
		})
		ctx, end := context.WithCancel(t.Context())
		terms.begin <- ctx
		time.Sleep(time.Minute)
		end()
		require.NoError(t, <-terms.ended)
		require.NoError(t, stop())
		assert.Nil(t, options.Reader, "the user's")
		assert.Equal(t, "t", value)
		full, _, watches := p.requests(0, "services")
		assert.Equal(t, 1, full)
		assert.Zero(t, watches)
	})
}
