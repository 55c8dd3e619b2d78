package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/handover"
)

// fillInterval is the pause before retrying a kind that the API server does not serve.
const fillInterval = 10 * time.Second

// Standby is an elected program whose caches live as long as the process, while its controllers
// begin and end with each term. The package documentation lists its guarantees.
type Standby struct {
	// Config is that of all clients, guarded by the elector, for example by
	// guarded.Wrap(elector.WrapTransport). A guard lets the reads of the caches pass.
	Config *rest.Config
	// Options are those of the process's manager, which serves metrics, probes and webhooks in
	// every replica. The manager of a term has the same scheme, client and controller options.
	//
	// LeaderElection must be off, and bookmarks on, which are the defaults.
	// GracefulShutdownTimeout is always -1.
	Options manager.Options
	// Warm has an object of each kind whose cache is filled before the first term, such as
	// &corev1.ConfigMap{}. Until then this process is no candidate. The cache of any other kind is
	// filled when a term first asks for it, and stays as well.
	Warm []client.Object
	// SetUp adds to the process's manager what runs in every replica, such as webhooks and checks
	// for probes. Optional.
	SetUp func(manager.Manager) error
}

// Run starts the process's manager, fills the warm caches, and then calls elect, which is Run of an
// elector or a function that calls it.
//
// In each term, setUp adds the controllers to a new manager. They start when the caches that they
// watch show what earlier terms have written. They end with the term, and the lead function that elect
// gets returns only when they have. An error of setUp or of a runnable ends the term with that error.
//
// Run returns when ctx has ended or elect has returned, and everything has ended: first the term
// and the runnables of SetUp, then caches and servers. Its error joins those of elect and of the
// process's manager.
func (s Standby) Run(
	ctx context.Context, elect func(ctx context.Context, lead func(context.Context) error) error,
	setUp func(manager.Manager) error,
) error {
	if err := s.validate(elect != nil, setUp != nil); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	warm := &warmCache{over: ctx.Done()}
	options := s.options()
	options.NewCache = warm.wrap(options.NewCache)
	process, err := manager.New(s.Config, options)
	if err != nil {
		return fmt.Errorf("controllerruntime: make the manager of the process: %w", err)
	}
	if s.SetUp != nil {
		if err := s.SetUp(process); err != nil {
			return err
		}
	}
	var electErr error
	err = process.Add(manager.RunnableFunc(func(running context.Context) error {
		defer cancel()
		defer context.AfterFunc(running, cancel)()
		if s.fill(ctx, process) {
			electErr = elect(ctx, func(ctx context.Context) error { return s.lead(ctx, process, warm, setUp) })
		}
		return nil
	}))
	if err != nil {
		return err
	}
	err = process.Start(ctx)
	return errors.Join(electErr, err)
}

func (s Standby) validate(elect, setUp bool) error {
	var errs []error
	refuse := func(wrong bool, rule string) {
		if wrong {
			errs = append(errs, fmt.Errorf("controllerruntime: Standby: %s", rule))
		}
	}
	refuse(s.Config == nil, "Config: must not be nil")
	refuse(s.Options.LeaderElection, "Options.LeaderElection: must be off: it would be a second election")
	refuse(!bookmarked(s.Options.Cache), "Options.Cache: EnableWatchBookmarks: must not be false: "+
		"a cache of a quiet kind would never be known to be fresh")
	refuse(!elect, "Run: elect: must not be nil")
	refuse(!setUp, "Run: setUp: must not be nil")
	return errors.Join(errs...)
}

// bookmarked reports whether all watches of a cache ask for bookmarks.
func bookmarked(o cache.Options) bool {
	on := func(enabled *bool) bool { return enabled == nil || *enabled }
	all := on(o.DefaultEnableWatchBookmarks)
	each := func(namespaces map[string]cache.Config) {
		for _, c := range namespaces {
			all = all && on(c.EnableWatchBookmarks)
		}
	}
	each(o.DefaultNamespaces)
	for _, b := range o.ByObject {
		all = all && on(b.EnableWatchBookmarks)
		each(b.Namespaces)
	}
	return all
}

// options are those of all managers. Each gets a copy, because a manager changes the options of its client.
func (s Standby) options() manager.Options {
	o := s.Options
	if o.Client.Cache != nil {
		own := *o.Client.Cache
		o.Client.Cache = &own
	}
	o.GracefulShutdownTimeout = new(time.Duration(-1)) // Start returns when everything has ended
	return o
}

// fill fills the caches of the warm kinds. It reports false if ctx ends before that.
func (s Standby) fill(ctx context.Context, process manager.Manager) bool {
	var filling sync.WaitGroup
	for _, o := range s.Warm {
		filling.Go(func() {
			for {
				_, err := process.GetCache().GetInformer(ctx, o)
				if err == nil || ctx.Err() != nil {
					return
				}
				process.GetLogger().Error(err, "a cache cannot be filled, and this process is no candidate before",
					"type", fmt.Sprintf("%T", o))
				if !clock.Sleep(ctx, fillInterval) {
					return
				}
			}
		})
	}
	filling.Wait()
	return ctx.Err() == nil
}

// lead runs one term, and returns when nothing of the term runs any more.
func (s Standby) lead(
	ctx context.Context, process manager.Manager, warm *warmCache, setUp func(manager.Manager) error,
) error {
	ctx = handover.WithTerm(ctx, ctx.Done()) // whatever elects
	t := newTermCache(ctx, warm)
	defer t.end() // even if the manager has not been started
	mgr, err := manager.New(s.Config, s.termOptions(ctx, process, t))
	if err != nil {
		return fmt.Errorf("controllerruntime: make the manager of a term: %w", err)
	}
	t.anticipate(s.Warm)
	if err := setUp(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// withValues is a context that also has the values of another one.
type withValues struct {
	context.Context                 //nolint:containedctx // it is one
	values          context.Context //nolint:containedctx // part of one
}

func (c withValues) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// termOptions make the context of the term that of all its runnables, so that their guarded
// requests belong to this term and to no later one.
func (s Standby) termOptions(ctx context.Context, process manager.Manager, t *termCache) manager.Options {
	o := s.options()
	o.Scheme = process.GetScheme()
	o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return process.GetRESTMapper(), nil }
	o.NewCache = func(*rest.Config, cache.Options) (cache.Cache, error) { return t, nil }
	if base := o.BaseContext; base != nil {
		ctx = withValues{ctx, base()}
	}
	o.BaseContext = func() context.Context { return ctx }
	o.Controller.SkipNameValidation = new(true) // the term before had controllers of the same names
	if o.Controller.UsePriorityQueue == nil {
		// When it is shut down, that of v0.24 and v0.25 may wait forever for a worker that has gone.
		o.Controller.UsePriorityQueue = new(false)
	}
	o.Metrics = metricsserver.Options{BindAddress: "0"}
	o.HealthProbeBindAddress, o.PprofBindAddress, o.WebhookServer = "", "", nil
	return o
}
