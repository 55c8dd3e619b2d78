package sharder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/internal/membership"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// Sharder distributes the objects of a ring over its shards. Only one replica may run it at a time:
// call Run under leader election.
type Sharder struct {
	kube     kubernetes.Interface
	meta     metadata.Interface
	mapper   meta.RESTMapper
	config   Config
	busy     sync.Mutex          // held by Run
	tracker  *shardstate.Tracker // used by a session of Run, or by follow before it
	troubles *resourceTroubles   // of all sessions of Run

	session atomic.Pointer[session] // that of Run; nil if there is none
}

// ErrBusy is returned by Run while another Run of the same Sharder has not returned.
var ErrBusy = errors.New("sharder: Run of this sharder is already running")

// New returns a sharder. It sends no request. kube is for the shards' Leases and the ring's
// history, meta for the objects, and mapper resolves their kinds. Both clients should be guarded by
// the elector under which Run is called. They should have no rate limit (QPS: -1), or one that fits
// the number of objects. The returned error joins one error for every rule that config breaks.
func New(kube kubernetes.Interface, meta metadata.Interface, mapper meta.RESTMapper, config Config) (*Sharder, error) {
	config = config.withDefaults()
	var errs []error
	for name, missing := range map[string]bool{"kube": kube == nil, "meta": meta == nil, "mapper": mapper == nil} {
		if missing {
			errs = append(errs, fmt.Errorf("sharder: %s: must not be nil", name))
		}
	}
	if err := errors.Join(append(errs, config.validate())...); err != nil {
		return nil, err
	}
	tracker, err := config.newTracker()
	if err != nil {
		return nil, err
	}
	config.Logger = config.Logger.With(zap.String("ring", config.Ring))
	return &Sharder{
		kube: kube, meta: meta, mapper: mapper, config: config,
		tracker: tracker, troubles: newResourceTroubles(config.Hooks.OnResource),
	}, nil
}

// membership is what package membership needs to know.
func (s *Sharder) membership() membership.Config {
	c := s.config
	return membership.Config{
		Kube: s.kube, Namespace: c.Namespace, Ring: c.Ring, LeaseDuration: c.LeaseDuration,
		Balance: c.Balance, Clock: c.clock, Log: c.Logger,
	}
}

// follow watches the shards' Leases until stop is called, so that a session that begins then has
// recorded how long each Lease has been unchanged. It must not run beside Run. stop waits until it
// has ended.
func (s *Sharder) follow(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		membership.NewShards(s.membership(), s.tracker).Run(ctx, "")
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (c Config) newTracker() (*shardstate.Tracker, error) {
	tracker, err := shardstate.NewTracker(shardstate.Config{
		Namespace: c.Namespace, Ring: c.Ring, LeaseDuration: c.LeaseDuration, GCPeriod: c.GCPeriod,
	})
	if err != nil {
		return nil, fmt.Errorf("sharder: %w", err)
	}
	return tracker, nil
}

// Run distributes objects until ctx ends, and then returns nil. When it returns, everything that it
// started has ended, except for requests on the wire.
//
// Run retries all failures until ctx ends, with one exception. It returns an error if the API
// server refuses a request that the sharder needs, at the start and for LeaseDuration, because
// roles may be created a little later than the process. The missing right is logged at once, and
// named in the error. If only some of the resources are affected, the objects of the others are
// distributed meanwhile, and those of the affected ones as soon as possible. If the API server does
// not serve a resource, because its definition is missing, its objects are distributed within a
// minute after it is served. A later refusal to store the ring's history likewise ends Run after
// LeaseDuration.
func (s *Sharder) Run(ctx context.Context) error {
	if !s.busy.TryLock() {
		return ErrBusy
	}
	defer s.busy.Unlock()
	defer s.session.Store(nil)
	defer s.troubles.end() // the next sharder reports its own
	ctx, endReviews := s.LogMissingRights(ctx)
	defer endReviews()
	for {
		session, err := s.begin(ctx, true)
		if session == nil {
			return err
		}
		s.session.Store(session)
		err = session.run(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, errResourceServed):
			return err
		}
		s.config.Logger.Info("a resource is served that was not: its objects are distributed as well")
	}
}

// RunElected calls elect, such as Run of an Elector of package leaderelection, with a lead function
// that runs the sharder. While this process does not lead, it watches the shards' Leases, so that
// the next sharder knows how long each has been unchanged, and so each of n replicas receives n
// events per renew interval (3 s by default). RunElected returns the result of elect.
func (s *Sharder) RunElected(
	ctx context.Context, elect func(ctx context.Context, lead func(ctx context.Context) error) error,
) error {
	unfollow := s.follow(ctx)
	defer func() { unfollow() }()
	return elect(ctx, func(elected context.Context) error {
		unfollow()
		defer func() { unfollow = s.follow(ctx) }()
		return s.Run(elected)
	})
}

// begin opens a session. It returns nil if ctx has ended, and an error if the API server has
// refused for LeaseDuration what a session needs.
func (s *Sharder) begin(ctx context.Context, partly bool) (*session, error) {
	pause, refused := minPause, s.config.clock.Now()
	failures := kube.NewFailures(s.config.Logger, s.config.clock)
	for {
		session, err := s.open(ctx, partly)
		kube.RoleOf(ctx).Explain(ctx, err)
		now := s.config.clock.Now()
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case err == nil:
			return session, nil
		case !isRefusal(err):
			refused = now
		case now.SinceAtLeast(refused) >= s.config.LeaseDuration:
			return nil, err
		}
		failures.Note("begin", err, "the sharder cannot begin yet, retrying", "")
		if !clock.Sleep(ctx, pause) {
			return nil, nil
		}
		pause = min(2*pause, maxPause)
	}
}

// isRefusal reports whether an error is one that only a change of the cluster's configuration will
// end.
func isRefusal(err error) bool {
	return kube.Forbidden(err) || kube.Unauthorized(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) ||
		errors.Is(err, protocol.ErrScope) || errors.Is(err, protocol.ErrDescent)
}

// Status is the present state of a running sharder.
type Status struct {
	// Members are the shards among which objects are distributed, sorted.
	Members []string
	// Settled is true if every object was found with its owner under the present membership.
	Settled bool
	// Draining is how many objects are being taken from living shards.
	Draining int
	// Waiting is how many objects wait for the sharder.
	Waiting int
	// Troubled are the resources whose objects cannot be listed or watched, or that the API server
	// does not serve, sorted. Their objects wait; those of other resources do not.
	Troubled []schema.GroupVersionResource
}

// Status returns the present state. ok is false if the sharder is not running.
func (s *Sharder) Status() (status Status, ok bool) {
	session := s.session.Load()
	if session == nil {
		return Status{}, false
	}
	return session.status(), true
}
