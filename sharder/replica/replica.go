// Package replica makes a sharded controller from one client configuration: the shard with its
// lease, and the sharder with its election, each with the guarded clients that it needs. It is for
// programs; tests with client-go's fakes make the parts one by one, as the examples of package
// sharder do.
//
//	r, err := replica.New(config, replica.Config{
//		Namespace: ns, Ring: "checksums",
//		Resources: []api.Resource{{GVR: corev1.SchemeGroupVersion.WithResource("configmaps")}},
//	})
//	…
//	return r.Run(ctx, func(ctx context.Context) error {
//		return controller(ctx, r.ShardConfig, r.Shard)
//	}, nil)
//
// A program may have several replicas, for several rings. Package sharder documents what they
// guarantee, and the rights that they need.
package replica

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/transport"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Replica is one of several equal processes of a sharded controller: each is a shard, and one of
// them is also the sharder. All of them watch the shards' Leases, so that the next sharder knows
// how long each has been unchanged.
//
// Its fields must not be changed. A program that needs settings of the parts that [Config] does not
// have makes the parts itself, and a Replica of them. Elector must then have an OnLost that returns,
// and no KernelDeadline, because a replica that loses the leadership stops its sharder but continues
// as a shard, and the clients of Sharder must be guarded by Elector, not by Lease.
type Replica struct {
	// Lease is the heartbeat of the shard, and Shard decides what it may work on. If the lease is
	// lost, the process ends by default.
	Lease *shardlease.Lease
	Shard *shard.Shard
	// Elector elects the one replica whose Sharder is at work.
	Elector *leaderelection.Elector
	Sharder *sharder.Sharder

	// ShardConfig is for the clients of the work on this shard's objects, which write only while
	// this process holds Lease. No work is done before there is such a client
	// ([shard.ErrUnguarded]).
	ShardConfig *rest.Config
	// LeaderConfig is for what only one of the replicas may do. Its clients write only while
	// Elector leads.
	//
	// Both are copies of the configuration that New was given, with its rate limit. Controllers
	// usually need a higher one than client-go's 5 requests per second.
	LeaderConfig *rest.Config
}

// New makes a replica, which does nothing until Run is called. config is copied. The clients of the
// replica itself have no rate limit.
//
// Without [Config].Mapper New asks the API server for the kinds of the resources, and fails if it
// does not answer. An error for a bad Config names each field and the rule that it breaks.
func New(config *rest.Config, c Config) (*Replica, error) { return build(config, c, shardlease.New) }

// Claim is [New] for the Pods of a Deployment: the shard takes the first name of <ring>-0,
// <ring>-1, … that is free, and with it the objects of the Pod that it replaces. It holds the lease
// when it returns: call Run within LeaseDuration - Margin, 12 s by default. See
// [shardlease.ClaimOrdinal]. Identity must be empty.
func Claim(ctx context.Context, config *rest.Config, c Config) (*Replica, error) {
	var lease *shardlease.Lease
	r, err := build(config, c, func(client kubernetes.Interface, c shardlease.Config) (_ *shardlease.Lease, err error) {
		lease, err = shardlease.ClaimOrdinal(ctx, client, c)
		return lease, err
	})
	if err != nil && lease != nil {
		over, end := context.WithCancel(ctx)
		end()
		err = errors.Join(err, lease.Run(over, func(context.Context) error { return nil })) // gives the name back
	}
	return r, err
}

// build makes a replica whose lease is made by newLease.
func build(config *rest.Config, c Config,
	newLease func(kubernetes.Interface, shardlease.Config) (*shardlease.Lease, error),
) (*Replica, error) {
	if err := c.validate(config); err != nil {
		return nil, err
	}
	leases, err := kubernetes.NewForConfig(shardlease.LeaseConfig(config))
	if err != nil {
		return nil, fmt.Errorf("replica: make the client of the leases: %w", err)
	}
	elector, electorErr := leaderelection.New(leases, c.election(config))
	lease, leaseErr := newLease(leases, c.lease(config))
	if err := errors.Join(leaseErr, electorErr); err != nil {
		return nil, err
	}
	r := &Replica{
		Lease: lease, Elector: elector, ShardConfig: guarded(config, lease.WrapTransport),
		LeaderConfig: guarded(config, elector.WrapTransport),
	}
	_, mine, err := clients(guarded(config, lease.WrapOwnTransport))
	if err != nil {
		return nil, err
	}
	kube, everyones, err := clients(r.LeaderConfig)
	if err != nil {
		return nil, err
	}
	if c.Mapper == nil {
		c.Mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kube.Discovery()))
	}
	r.Shard, err = shard.New(mine, c.Mapper, lease, shard.Config{
		Resources: c.Resources, Scheme: c.Scheme, AckGrace: c.AckGrace, Quiet: c.Quiet,
		Hooks: c.Hooks.Shard, Logger: c.Logger,
	})
	if err != nil {
		return nil, err
	}
	r.Sharder, err = sharder.New(kube, everyones, c.Mapper, sharder.Config{
		Namespace: c.Namespace, Ring: c.Ring, Resources: c.Resources, LeaseDuration: c.LeaseDuration,
		Balance: c.Balance, ScanInterval: c.ScanInterval, GCPeriod: c.GCPeriod, Events: c.Events,
		Hooks: c.Hooks.Sharder, Logger: c.Logger,
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// guarded returns a copy of config whose clients pass the guard. It is the innermost wrapper, so
// that it sees what is sent.
func guarded(config *rest.Config, guard transport.WrapperFunc) *rest.Config {
	c := rest.CopyConfig(config)
	c.WrapTransport = transport.Wrappers(guard, c.WrapTransport)
	return c
}

// clients without a rate limit.
func clients(config *rest.Config) (kubernetes.Interface, metadata.Interface, error) {
	c := rest.CopyConfig(config)
	c.RateLimiter, c.QPS, c.Burst = nil, -1, 0
	kube, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, nil, fmt.Errorf("replica: make a client: %w", err)
	}
	objects, err := metadata.NewForConfig(c)
	if err != nil {
		return nil, nil, fmt.Errorf("replica: make a client for metadata: %w", err)
	}
	return kube, objects, nil
}

// Run acquires the lease and calls work, which works on the objects of this shard. While this
// process is elected, it also runs the sharder, and beside it leading, which does what only one of
// the replicas may do and may be nil. When ctx ends or work returns, work ends first, then sharder
// and leading, which gives up the leadership, and then the lease is released. Until work has ended,
// objects are distributed as before.
//
// work and leading return when their context ends, and nil only once none of their goroutines is
// running, as a controller-runtime manager's Start does with a GracefulShutdownTimeout of -1.
// leading is called again whenever this process is elected, so it needs a new manager each time.
//
// Run returns the result of [shardlease.Lease.Run]. If the sharder cannot run, because the API
// server refuses what it needs, or leading ends early, work's context ends, and Run returns that
// error as well.
func (r *Replica) Run(ctx context.Context, work, leading func(ctx context.Context) error) error {
	if r.Lease == nil || r.Shard == nil || r.Elector == nil || r.Sharder == nil {
		return errors.New("replica: Lease, Shard, Elector and Sharder must not be nil")
	}
	return r.run(ctx, r.Elector.Run, func(ctx context.Context) error {
		defer r.keepChecking(ctx)()
		return work(ctx)
	}, leading)
}

// run is Run with the Run of an elector.
func (r *Replica) run(
	ctx context.Context, elect func(context.Context, func(context.Context) error) error,
	work, leading func(context.Context) error,
) error {
	// The rights that the leases lack are logged together with those of the sharder, which begins
	// later.
	ctx, endReviews := r.Sharder.LogMissingRights(ctx)
	defer endReviews()
	var failure error // of the sharder, in the latest term
	err := r.Lease.Run(ctx, func(ctx context.Context) error {
		failure = nil
		working, endWork := context.WithCancelCause(ctx)
		defer endWork(nil)
		sharding, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // the work ends first
		var beside sync.WaitGroup
		endSharder := func() {
			cancel(context.Cause(ctx)) // the election is not released while the lease steps down
			beside.Wait()
		}
		defer endSharder() // even if work does not return
		beside.Go(func() {
			failure = r.Sharder.RunElected(sharding, func(ctx context.Context, lead func(context.Context) error) error {
				return elect(ctx, func(ctx context.Context) error { return runBeside(ctx, lead, leading) })
			})
			if failure == nil && sharding.Err() == nil {
				failure = errors.New("replica: the election has ended without a reason")
			}
			endWork(failure)
		})
		err := work(working)
		endSharder()
		if isEndOf(working, err) {
			return nil // it has ended, perhaps because the sharder has failed
		}
		return err
	})
	return errors.Join(err, failure)
}

// runBeside runs the sharder and leading, which may be nil, and returns when both have ended.
func runBeside(ctx context.Context, runSharder, leading func(ctx context.Context) error) error {
	if leading == nil {
		return runSharder(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	var failure error
	var beside sync.WaitGroup
	end := func() {
		cancel()
		beside.Wait()
	}
	defer end() // even if the sharder does not return
	beside.Go(func() {
		defer cancel()
		failure = leading(ctx)
		switch {
		case isEndOf(ctx, failure):
			failure = nil
		case failure == nil && ctx.Err() == nil:
			failure = errors.New("replica: leading has ended without a reason")
		}
	})
	err := runSharder(ctx)
	end()
	return errors.Join(err, failure)
}

// isEndOf reports whether err is exactly the error or the cause of ctx, which has ended. This shows
// the lease that work has ended.
func isEndOf(ctx context.Context, err error) bool {
	// A wrapped one may come from work that still runs.
	return ctx.Err() != nil && (err == ctx.Err() || err == context.Cause(ctx)) //nolint:errorlint // see above
}

// checkInterval is how often Run makes the shard look for what nothing works on, as a readiness
// probe does, which a program may lack.
const checkInterval = 10 * time.Second

// keepChecking calls the check of the shard, which logs what it finds, until end is called.
func (r *Replica) keepChecking(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() {
		ticker := time.NewTicker(checkInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				_ = r.Shard.Check(nil) // it has logged that
			}
		}
	})
	return func() {
		cancel()
		beside.Wait()
	}
}

// Alive is a health check for a liveness probe, with the signature of controller-runtime's
// healthz.Checker. It returns an error while this process holds on to what it has lost, which a
// restart fixes, but not while it waits for the lease, or during an outage of the API server.
func (r *Replica) Alive(request *http.Request) error {
	return errors.Join(r.Lease.Check(request), r.Elector.Check(request))
}

// Ready is a health check for a readiness probe. It returns an error unless this process is alive,
// holds its lease, and works on the objects that it gets ([shard.Shard.Check]).
func (r *Replica) Ready(request *http.Request) error {
	_, err := r.Lease.Term()
	return errors.Join(err, r.Alive(request), r.Shard.Check(request))
}
