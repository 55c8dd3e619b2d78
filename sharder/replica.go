package sharder

import (
	"context"
	"errors"
	"sync"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Replica is one of several equal processes of a sharded controller: each is a shard, and one of
// them is also the sharder. All of them watch the shards' Leases, so that the next sharder knows
// how long each has been unchanged, and so each of n replicas receives n events per renew interval
// (3 s by default).
//
// All fields but Leading are required. Package replica makes a Replica from a client configuration.
type Replica struct {
	// Lease is the heartbeat of the shard. If it is lost, the process ends by default.
	Lease *shardlease.Lease
	// Elector elects whose sharder runs. It must have an OnLost that returns, and no
	// KernelDeadline, because a replica that loses the leadership stops its sharder but continues
	// as a shard.
	Elector Elector
	// Sharder runs while this process is the leader. Its clients are guarded by Elector, not by
	// Lease.
	Sharder *Sharder
	// Leading is what only one replica may do. It runs beside Sharder while this process is the
	// leader, with clients guarded by Elector, and is called again in each term. It must run until
	// its context ends; an earlier return ends the replica. May be nil.
	Leading func(ctx context.Context) error
}

// Elector elects the one replica whose sharder runs. An *Elector of package leaderelection is one.
type Elector interface {
	Run(ctx context.Context, lead func(ctx context.Context) error) error
}

// Run acquires the lease, then calls work, and runs the sharder whenever this process is elected.
// When ctx ends, or work returns, the work ends first, then the sharder, which gives up the
// leadership, and then the lease is released. Until work has ended, objects are distributed as
// before.
//
// Run returns the result of [shardlease.Lease.Run], whose rules work must follow: work returns nil
// only once none of its goroutines is running. If the sharder cannot run, because the API server
// refuses what it needs, work's context ends, and Run returns the sharder's error as well.
func (r Replica) Run(ctx context.Context, work func(ctx context.Context) error) error {
	if r.Lease == nil || r.Elector == nil || r.Sharder == nil {
		return errors.New("sharder: Replica: Lease, Elector and Sharder must not be nil")
	}
	// The rights that the leases lack are logged together with those of the sharder, which begins
	// later.
	ctx, endReviews := r.Sharder.beginReviews(ctx)
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
			unfollow := r.Sharder.follow(sharding)
			failure = r.Elector.Run(sharding, func(ctx context.Context) error {
				unfollow()
				defer func() { unfollow = r.Sharder.follow(sharding) }()
				return r.lead(ctx)
			})
			unfollow()
			if failure == nil && sharding.Err() == nil {
				failure = errors.New("sharder: the election has ended without a reason")
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

// lead runs the sharder and Leading while this process is the leader. It returns when both have
// ended.
func (r Replica) lead(ctx context.Context) error {
	if r.Leading == nil {
		return r.Sharder.Run(ctx)
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
		failure = r.Leading(ctx)
		switch {
		case isEndOf(ctx, failure):
			failure = nil
		case failure == nil && ctx.Err() == nil:
			failure = errors.New("sharder: Replica: Leading has ended without a reason")
		}
	})
	err := r.Sharder.Run(ctx)
	end()
	return errors.Join(err, failure)
}

// isEndOf reports whether err is exactly the error or the cause of ctx, which has ended. This shows
// the lease that work has ended.
func isEndOf(ctx context.Context, err error) bool {
	// A wrapped one may come from work that still runs.
	return ctx.Err() != nil && (err == ctx.Err() || err == context.Cause(ctx)) //nolint:errorlint // see above
}
